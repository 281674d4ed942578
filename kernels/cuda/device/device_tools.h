// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/profile/device_tracer.h"
#include "core/profile/range_marker.h"

namespace lockstep::cuda {

/// Streams, each a cudaStream_t, and what they are for.
using NamedStreams = std::vector<std::pair<void*, std::string>>;

/// Kernel times through CUPTI, which is opened by the first call. Throws EnvironmentError: it
/// cannot be opened, or is of another version.
std::unique_ptr<DeviceTracer> make_tracer(NamedStreams streams = {});

/// Whether this was built with CUPTI's header.
bool has_tracer();
/// The file of the CUPTI that make_tracer() takes. Opens it. Throws as make_tracer().
std::string tracer_file();

/// Ranges through NVTX 3, domain "lockstep". Null where no tool is attached to this process.
std::unique_ptr<RangeMarker> make_range_marker();

}  // namespace lockstep::cuda
