// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/library_versions.h"

#include "kernels/cuda/device/cuda_build.h"

namespace lockstep::cuda {

std::string library_versions() { return "emulated libraries"; }

}  // namespace lockstep::cuda

namespace lockstep {

CudaLibraries cuda_libraries() { return {cuda::library_versions(), {}}; }

}  // namespace lockstep
