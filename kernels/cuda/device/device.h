// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <memory>
#include <string>

#include "kernels/cuda/device/algorithm_cache.h"

namespace lockstep::cuda {

/// What every kernel of a process shares: its GPU, and the stream on which programs run. Owned by
/// the backend, which outlives its kernels.
struct Device {
  int ordinal = 0;
  int multiprocessors = 1;
  std::string name;               ///< "NVIDIA H100 80GB HBM3"
  cudaStream_t compute = {};      ///< everything that a program does is enqueued here, in order
  bool tf32 = false;              ///< fp32 GEMMs may round their factors to tf32
  bool times_algorithms = false;  ///< libraries' algorithms are timed, not taken from heuristics
  /// Never null; what libraries' kernels run.
  std::shared_ptr<AlgorithmCache> algorithms = std::make_shared<AlgorithmCache>();
};

}  // namespace lockstep::cuda
