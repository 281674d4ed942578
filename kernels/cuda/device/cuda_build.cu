// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_build.h"

// nvcc's list, "800,900"; the emulator's compiler has none.
#ifndef __CUDA_ARCH_LIST__
#define __CUDA_ARCH_LIST__
#endif

// No device code: no work, no bytes.
namespace lockstep::cuda {

std::vector<int> built_architectures() {
  std::vector<int> result{__CUDA_ARCH_LIST__};
  for (int& architecture : result) architecture /= 10;
  return result;
}

}  // namespace lockstep::cuda
