// SPDX-License-Identifier: Apache-2.0
// Where the toolkit's headers are missing.
#include "core/base/error.h"
#include "kernels/cuda/device_tools.h"

namespace lockstep::cuda {

std::unique_ptr<DeviceTracer> make_tracer() {
  throw EnvironmentError("kernel times by CUPTI: not built in", "build with the CUDA toolkit 13.0");
}

std::unique_ptr<RangeMarker> make_range_marker() { return nullptr; }

}  // namespace lockstep::cuda
