// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "tests/support/cuda_emulator/stream_queue.h"

/// Captures of streams and the graphs that come of them. As stream_queue.h: whoever calls something
/// here holds device_in_use().
namespace lockstep::emulator {

/// An item of a graph. Nodes stand in the order in which they were recorded.
struct Node {
  Work work;
  std::vector<int> after;  ///< nodes that come before it
  bool of_origin = true;   ///< recorded in the stream that the capture began with
  int priority = 0;        ///< of the stream it was recorded in
  bool is_kernel = false;
};

struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;         ///< which began it
  cudaStream_t origin = nullptr;  ///< null once it is closed
  long number = 0;                ///< of captures so far
  std::vector<Node> nodes;
  bool invalid = false;
  bool ended = false;
};

/// Adds a node after those that `stream`, which is being captured, has come to.
cudaError_t record(CUstream_st& stream, Work work);
/// Nothing can come of `capture` any more. Returns `status`, as set_status().
cudaError_t invalidate(Capture& capture, cudaError_t status, const std::string& text);

/// Has `stream` wait for an event that was recorded in a capture, which it joins.
cudaError_t wait_for_captured(CUstream_st& stream, const EventRecord& event);
/// `stream` takes part in no capture any more.
void leave_capture(CUstream_st& stream);

// What is not allowed in captures: cudaSuccess, or the error of `what`, which invalidates captures.
/// Calls that a capture in this thread excludes, or one in any where that asked for it.
cudaError_t refuse_unsafe(const char* what);
cudaError_t refuse_any_capture(const char* what);
cudaError_t refuse_captured(const CUstream_st& stream, const char* what);
cudaError_t refuse_captured(const CUevent_st& event, const char* what);

/// An order of `nodes` that their dependencies allow: branches come as late as they can, or as
/// early.
std::vector<int> adverse_order(const std::vector<Node>& nodes, bool branches_first);

}  // namespace lockstep::emulator
