// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_graph.h"

#include "core/base/check.h"
#include "kernels/cuda/device/cuda_check.h"

namespace lockstep::cuda {
namespace {

class CudaGraph final : public DeviceGraph {
 public:
  /// Takes over `graph`.
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : graph_(graph), stream_(stream) {}
  void make() {
    check(cudaGraphGetNodes(graph_, nullptr, &nodes_), "nodes of a graph");
    if (nodes_ == 0) return;
    // Else all of it would have the priority of the stream that it is launched into.
    check(cudaGraphInstantiate(&executable_, graph_, cudaGraphInstantiateFlagUseNodePriority),
          "making of a graph");
    // Else the first launch would do it. Crashed with NCCL's collectives: Note [Step graphs].
    check(cudaGraphUpload(executable_, stream_), "making of a graph");
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }

  void launch() override { check(cudaGraphLaunch(executable_, stream_), "launch of a graph"); }
  std::size_t nodes() const override { return nodes_; }

 private:
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
  cudaStream_t stream_;
  std::size_t nodes_ = 0;
};

}  // namespace

void begin_capture(const Device& device) {
  // Other threads load data and look at the device meanwhile, which has no part in it.
  check(cudaStreamBeginCapture(device.compute, cudaStreamCaptureModeThreadLocal),
        "beginning of a graph");
}

std::unique_ptr<DeviceGraph> end_capture(const Device& device) {
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(device.compute, &graph);
  cudaGetLastError();  // else libraries would take it for theirs
  check(status, "end of a graph");
  LOCKSTEP_CHECK(
      graph != nullptr, EnvironmentError, "end of a graph: it holds what cannot be captured");
  auto made = std::make_unique<CudaGraph>(graph, device.compute);
  made->make();
  return made;
}

void abandon_capture(const Device& device) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(device.compute, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // what was wrong has been said
}

}  // namespace lockstep::cuda
