// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions of captures and graphs.
#include <algorithm>

#include "tests/support/cuda_emulator/graphs.h"

using lockstep::emulator::Calls;
using lockstep::emulator::Capture;
using lockstep::emulator::device_in_use;
using lockstep::emulator::find_stream;
using lockstep::emulator::Lock;
using lockstep::emulator::Node;
using lockstep::emulator::set_status;

using Nodes = std::shared_ptr<const std::vector<Node>>;

struct CUgraph_st {
  Nodes nodes;
};
struct CUgraphExec_st {
  Nodes nodes;
  lockstep::emulator::Point last_launch = {};
};

/// What cudaStreamGetCaptureInfo() tells of a node is its type alone.
struct CUgraphNode_st {
  cudaGraphNodeType type;
};

namespace {

CUgraphNode_st a_kernel{cudaGraphNodeTypeKernel}, something_else{cudaGraphNodeTypeHost};

cudaError_t no_graph() { return set_status(cudaErrorInvalidValue, "no such graph"); }

/// Whether its streams differ in priority.
bool has_priorities(const std::vector<Node>& nodes) {
  return std::ranges::any_of(
      nodes, [&](const Node& node) { return node.priority != nodes.front().priority; });
}

int captures_until_spoiled = 0;  // 0: none will be
long captures_begun = 0;

/// Whether all that was recorded comes before what `origin` has come to.
bool is_joined(const Capture& capture, const CUstream_st& origin) {
  std::vector<Node> nodes;
  for (const Node& node : capture.nodes) nodes.push_back({{}, node.after, false});
  nodes.push_back({{}, origin.nodes, true});
  // What is not waited for comes last.
  return lockstep::emulator::adverse_order(nodes, false).back() == int(capture.nodes.size());
}

}  // namespace

void lockstep::emulator::spoil_capture(int number) {
  const Lock lock(device_in_use());
  captures_until_spoiled = number;
}

long lockstep::emulator::capture_number(void* handle) {
  const Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (find_stream(static_cast<cudaStream_t>(handle), stream) != cudaSuccess) return 0;
  return stream->capture ? stream->capture->number : 0;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  if (handle == nullptr)
    return set_status(cudaErrorStreamCaptureUnsupported, "the null stream cannot be captured");
  if (stream->capture)
    return set_status(cudaErrorIllegalState, "the stream is being captured already");
  stream->capture = std::make_shared<Capture>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->origin = stream;
  stream->capture->number = ++captures_begun;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Lock lock(device_in_use());
  *graph = nullptr;
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return set_status(cudaErrorIllegalState, "the stream is not being captured");
  if (capture->origin != stream)
    return lockstep::emulator::invalidate(
        *capture, cudaErrorStreamCaptureUnmatched, "the capture was begun with another stream");
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id())
    return lockstep::emulator::invalidate(
        *capture, cudaErrorStreamCaptureWrongThread, "the capture was begun by another thread");
  const bool joined = is_joined(*capture, *stream);
  for (const cudaStream_t other : lockstep::emulator::all_streams())
    if (other->capture == capture) lockstep::emulator::leave_capture(*other);
  capture->ended = true;
  if (captures_until_spoiled > 0 && --captures_until_spoiled == 0) capture->invalid = true;
  if (capture->invalid)
    return set_status(cudaErrorStreamCaptureInvalidated, "the capture is invalid since an error");
  if (!joined)
    return set_status(cudaErrorStreamCaptureUnjoined,
                      "a stream has work in the capture that the stream it began with does not "
                      "wait for");
  *graph = new CUgraph_st{std::make_shared<const std::vector<Node>>(std::move(capture->nodes))};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = find_stream(handle, stream); error != cudaSuccess) return error;
  *status = cudaStreamCaptureStatusNone;
  if (stream->capture)
    *status = stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle,
                                     cudaStreamCaptureStatus* status,
                                     unsigned long long*,
                                     cudaGraph_t*,
                                     const cudaGraphNode_t** before,
                                     const cudaGraphEdgeData**,
                                     std::size_t* count) {
  if (const cudaError_t error = cudaStreamIsCapturing(handle, status); error != cudaSuccess)
    return error;
  const Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = find_stream(handle, stream); error != cudaSuccess) return error;
  stream->shown.clear();
  if (stream->capture)
    for (const int node : stream->nodes)
      stream->shown.push_back(
          stream->capture->nodes[std::size_t(node)].is_kernel ? &a_kernel : &something_else);
  *before = stream->shown.data();
  *count = stream->shown.size();
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = node->type;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (graph == nullptr) return no_graph();
  if (nodes != nullptr)
    return set_status(cudaErrorInvalidValue, "the emulator only counts nodes of graphs");
  *count = graph->nodes->size();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph == nullptr) return no_graph();
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable,
                                 cudaGraph_t graph,
                                 unsigned long long flags) {
  if (graph == nullptr) return no_graph();
  if ((flags & ~cudaGraphInstantiateFlagUseNodePriority) != 0)
    return set_status(cudaErrorInvalidValue, "a flag of graphs that the emulator does not know");
  if (flags == 0 && has_priorities(*graph->nodes))
    return set_status(cudaErrorInvalidValue,
                      "CUDA would do so, but the priorities of the streams would be lost");
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  if (executable == nullptr) return no_graph();
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t handle) {
  const Lock lock(device_in_use());
  if (executable == nullptr) return no_graph();
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  return lockstep::emulator::refuse_captured(*stream, "cudaGraphUpload");
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  Lock lock(device_in_use());
  if (executable == nullptr) return no_graph();
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  // Held: somebody may destroy the graph while a function of it runs.
  const Nodes nodes = executable->nodes;
  if (!stream->capture) {
    lockstep::emulator::count(&Calls::graph_launches);
    std::vector<lockstep::emulator::Point> after;
    if (executable->last_launch.queue) after.push_back(executable->last_launch);
    const cudaError_t status = enqueue(lock, handle, {}, std::move(after));
    if (status != cudaSuccess) return status;
  }
  const bool branches_first =
      lockstep::emulator::stream_mode() == lockstep::emulator::StreamMode::others_first;
  for (const int i : lockstep::emulator::adverse_order(*nodes, branches_first)) {
    lockstep::emulator::Work work = (*nodes)[std::size_t(i)].work;
    const cudaError_t status = enqueue(lock, handle, std::move(work));
    if (status != cudaSuccess) return status;
  }
  if (!stream->capture) executable->last_launch = stream->end();
  return cudaSuccess;
}
