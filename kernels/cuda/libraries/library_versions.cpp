// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/library_versions.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "kernels/cuda/device/cuda_build.h"
#include "kernels/cuda/device/device_tools.h"
#include "kernels/cuda/libraries/cublaslt_library.h"
#include "kernels/cuda/libraries/cudnn/cudnn_library.h"
#include "lockstep/error.h"

namespace lockstep::cuda {

std::string library_versions() {
  return fmt::format("CUDA {}.{}, cuBLASLt {}, cuDNN {}",
                     CUDART_VERSION / 1000,
                     CUDART_VERSION % 1000 / 10,
                     cublaslt_version(),
                     cudnn_version());
}

namespace {

CudaLibrary found_nvrtc() {
  const Compiler& found = compiler();
  return {"NVRTC", "", found.file, found.why_none, found.hint};
}

CudaLibrary found_cupti() {
  try {
    return {"CUPTI", "", tracer_file(), "", ""};
  } catch (const EnvironmentError& error) {
    return {"CUPTI", "", "", error.what(), error.hint()};
  }
}

}  // namespace
}  // namespace lockstep::cuda

namespace lockstep {

CudaLibraries cuda_libraries() {
  CudaLibraries found{cuda::library_versions(), cuda::compiler().why_none};
  found.files.push_back(
      {"cuBLASLt", cuda::cublaslt_version(), cuda::cublaslt_file().path(), "", ""});
  found.files.push_back({"cuDNN", cuda::cudnn_version(), cuda::cudnn_file().path(), "", ""});
  found.files.push_back(cuda::found_nvrtc());
  if (cuda::has_tracer()) found.files.push_back(cuda::found_cupti());
  return found;
}

}  // namespace lockstep
