// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/graphs.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep::emulator {
namespace {

cudaError_t refuse(Capture& capture, const char* what) {
  return invalidate(capture,
                    cudaErrorStreamCaptureUnsupported,
                    fmt::format("{} is not permitted while a stream is being captured", what));
}

/// Which threads may not make unsafe calls.
bool excludes(const Capture& capture, std::thread::id thread) {
  switch (capture.mode) {
    case cudaStreamCaptureModeGlobal:
      return true;
    case cudaStreamCaptureModeThreadLocal:
      return capture.thread == thread;
    case cudaStreamCaptureModeRelaxed:
      break;
  }
  return false;
}

template <typename Predicate>
cudaError_t refuse_where(const char* what, Predicate excluded) {
  cudaError_t status = cudaSuccess;
  for (const cudaStream_t stream : all_streams())
    if (stream->capture && excluded(*stream->capture)) status = refuse(*stream->capture, what);
  return status;
}

void add_nodes(std::vector<int>& nodes, const std::vector<int>& further) {
  nodes.insert(nodes.end(), further.begin(), further.end());
  std::ranges::sort(nodes);
  nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
}

/// Appends to `order` node `last` and what comes before it, as far as it is not there.
void add_needed(const std::vector<Node>& nodes,
                int last,
                std::vector<bool>& placed,
                std::vector<int>& order) {
  std::vector<int> open{last}, needed;
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (placed[std::size_t(i)]) continue;
    placed[std::size_t(i)] = true;
    needed.push_back(i);
    const std::vector<int>& after = nodes[std::size_t(i)].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  add_nodes(needed, {});
  order.insert(order.end(), needed.begin(), needed.end());
}

}  // namespace

cudaError_t record(CUstream_st& stream, Work work) {
  Capture& capture = *stream.capture;
  if (capture.invalid)
    return set_status(cudaErrorStreamCaptureInvalidated, "the capture is invalid since an error");
  const bool is_kernel = work.counted == &Calls::kernel_launches;
  work.counted = nullptr;
  capture.nodes.push_back(
      {std::move(work), stream.nodes, &stream == capture.origin, stream.priority, is_kernel});
  stream.nodes = {int(capture.nodes.size()) - 1};
  return cudaSuccess;
}

cudaError_t invalidate(Capture& capture, cudaError_t status, const std::string& text) {
  capture.invalid = true;
  return set_status(status, text);
}

cudaError_t wait_for_captured(CUstream_st& stream, const EventRecord& event) {
  Capture& capture = *event.capture;
  if (stream.capture == event.capture) {
    if (capture.invalid) return record(stream, {});
    add_nodes(stream.nodes, event.nodes);
    return cudaSuccess;
  }
  if (capture.ended && stream.capture)
    return invalidate(*stream.capture,
                      cudaErrorStreamCaptureIsolation,
                      "a wait for an event of a capture that has ended");
  if (capture.ended)
    return set_status(cudaErrorCapturedEvent, "a wait for an event of a capture that has ended");
  if (stream.capture) {
    stream.capture->invalid = true;
    return invalidate(capture, cudaErrorStreamCaptureMerge, "a wait would merge two captures");
  }
  if (capture.invalid)
    return set_status(cudaErrorStreamCaptureInvalidated, "the capture is invalid since an error");
  if (is_null_stream(stream))
    return invalidate(
        capture, cudaErrorStreamCaptureImplicit, "the null stream would join a capture");
  stream.capture = event.capture;
  stream.nodes = event.nodes;
  return cudaSuccess;
}

void leave_capture(CUstream_st& stream) {
  stream.capture.reset();
  stream.nodes.clear();
}

cudaError_t refuse_unsafe(const char* what) {
  return refuse_where(
      what, [](const Capture& capture) { return excludes(capture, std::this_thread::get_id()); });
}
cudaError_t refuse_any_capture(const char* what) {
  return refuse_where(what, [](const Capture&) { return true; });
}
cudaError_t refuse_captured(const CUstream_st& stream, const char* what) {
  return stream.capture ? refuse(*stream.capture, what) : cudaSuccess;
}
cudaError_t refuse_captured(const CUevent_st& event, const char* what) {
  if (!event.last || !event.last->capture) return cudaSuccess;
  return invalidate(*event.last->capture,
                    cudaErrorCapturedEvent,
                    fmt::format("{} of an event that was recorded in a capture", what));
}

std::vector<int> adverse_order(const std::vector<Node>& nodes, bool branches_first) {
  std::vector<int> order;
  std::vector<bool> placed(nodes.size());
  for (const bool of_origin : {!branches_first, branches_first})
    for (int i = 0; i < int(nodes.size()); ++i)
      if (nodes[std::size_t(i)].of_origin == of_origin) add_needed(nodes, i, placed, order);
  return order;
}

}  // namespace lockstep::emulator
