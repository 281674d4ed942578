// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/dependent_support.h"
#include "kernels/cuda/launch.cuh"

// A kernel that is looked at and never launched: no work, no bytes.
namespace lockstep::cuda {
namespace {

/// Compiled as all own kernels are: what is found of it holds for them.
__global__ void compiled_as_others_kernel() { wait_for_earlier_work(); }

constexpr int kFirstMajor = 9, kFirstPtx = 90;

}  // namespace

bool has_dependent_launches(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cuda: device properties");
  if (properties.major < kFirstMajor) return false;
  // Else the driver has translated code for an older device, which does not wait.
  cudaFuncAttributes code{};
  check(cudaFuncGetAttributes(&code, compiled_as_others_kernel), "cuda: attributes of a kernel");
  return code.ptxVersion >= kFirstPtx;
}

}  // namespace lockstep::cuda
