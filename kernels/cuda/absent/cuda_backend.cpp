// SPDX-License-Identifier: Apache-2.0
// The placeholder for the CUDA backend where the build did not find what it is made with.
#include "kernels/cuda/cuda_backend.h"

#include "core/base/parameter_names.h"
#include "kernels/cuda/device/cuda_build.h"
#include "kernels/cuda/device/device_probe.h"
#include "lockstep/error.h"

namespace lockstep {

DeviceProbe probe_cuda() {
  return {
      0,
      "the CUDA backend is not built into this program (" LOCKSTEP_NO_CUDA_BECAUSE ")",
      name_parameters("install the CUDA toolkit 12.4 or later, with nvcc on PATH, and cuDNN 9.1 "
                      "or later, and build again; or use `device` cpu")};
}

std::string cuda_device_id(int) { return {}; }

CudaFacts cuda_build() { return {LOCKSTEP_NO_CUDA_BECAUSE, 0, {}}; }

CudaLibraries cuda_libraries() {
  const DeviceProbe probe = probe_cuda();
  throw EnvironmentError("cuda: " + probe.reason, probe.hint);
}

std::unique_ptr<Backend> make_cuda_backend(int) {
  const DeviceProbe probe = probe_cuda();
  throw EnvironmentError("cuda: " + probe.reason, probe.hint);
}

}  // namespace lockstep
