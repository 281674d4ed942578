// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/device_tracer.h"
#include "core/exec/range_marker.h"

namespace lockstep::cuda {

/// Kernel times through CUPTI, which is opened by the first call. Throws EnvironmentError: it
/// cannot be opened, or is of another version.
std::unique_ptr<DeviceTracer> make_tracer();

/// Ranges through NVTX 3, domain "lockstep". Null where no tool is attached to this process.
std::unique_ptr<RangeMarker> make_range_marker();

}  // namespace lockstep::cuda
