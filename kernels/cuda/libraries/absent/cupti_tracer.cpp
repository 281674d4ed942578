// SPDX-License-Identifier: Apache-2.0
// The placeholder for kernel times where the build found no headers of CUPTI.
#include "kernels/cuda/device/device_tools.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

[[noreturn]] void refuse() {
  throw EnvironmentError(
      "kernel times by CUPTI: not built into this program, as the build found no cupti.h",
      "install CUPTI of the CUDA toolkit that this is built with (cuda-cupti-dev), or say where "
      "its headers are with -DCUPTI_INCLUDE_DIR=FOLDER, and build again");
}

}  // namespace

std::unique_ptr<DeviceTracer> make_tracer(NamedStreams) { refuse(); }
bool has_tracer() { return false; }
std::string tracer_file() { refuse(); }

}  // namespace lockstep::cuda
