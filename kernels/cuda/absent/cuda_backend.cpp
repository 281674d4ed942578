// SPDX-License-Identifier: Apache-2.0
// What stands in for the CUDA backend where the build found no nvcc.
#include "kernels/cuda/cuda_backend.h"

#include "core/base/error.h"
#include "kernels/cuda/device_probe.h"

namespace lockstep {

DeviceProbe probe_cuda() {
  return {.devices = 0,
          .reason = "the CUDA backend is not built into this program",
          .hint =
              "install the CUDA toolkit 13.0 or later, so that nvcc is on PATH, and build again; "
              "or use --device cpu"};
}

std::unique_ptr<Backend> make_cuda_backend(int) {
  const DeviceProbe probe = probe_cuda();
  throw EnvironmentError("cuda: " + probe.reason, probe.hint);
}

}  // namespace lockstep
