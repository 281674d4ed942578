// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/dependent_launch.h"

#include "kernels/cuda/device/cuda_check.h"

namespace lockstep::cuda {

void set_dependent_launches(bool on) { dependent_launches_state() = on; }

bool may_launch_dependent(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* before = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
#if defined(CUDART_VERSION) && CUDART_VERSION < 13000
  const auto capture_info = cudaStreamGetCaptureInfo_v3;
#else
  const auto capture_info = cudaStreamGetCaptureInfo;
#endif
  check(capture_info(stream, &status, nullptr, nullptr, &before, &edges, &count),
        "cuda: what a capture has come to");
  if (status == cudaStreamCaptureStatusNone) return true;
  if (status != cudaStreamCaptureStatusActive || count != 1) return false;
  cudaGraphNodeType type{};
  check(cudaGraphNodeGetType(before[0], &type), "cuda: type of a node");
  return type == cudaGraphNodeTypeKernel;
}

}  // namespace lockstep::cuda
