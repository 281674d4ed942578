// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/library_versions.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "kernels/cuda/cuda_build.h"
#include "kernels/cuda/libraries/cublaslt_library.h"
#include "kernels/cuda/libraries/cudnn_library.h"

namespace lockstep::cuda {

std::string library_versions() {
  return fmt::format("CUDA {}.{}, cuBLASLt {}, cuDNN {}",
                     CUDART_VERSION / 1000,
                     CUDART_VERSION % 1000 / 10,
                     cublaslt_version(),
                     cudnn_version());
}

}  // namespace lockstep::cuda

namespace lockstep {

CudaLibraries cuda_libraries() { return {cuda::library_versions(), cuda::why_no_compiler()}; }

}  // namespace lockstep
