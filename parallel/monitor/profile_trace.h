// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/profile/profiler.h"

namespace lockstep {

/// A rank's events in Chrome's trace event format (https://chromium.googlesource.com/catapult,
/// "Trace Event Format"), without the brackets around them: process = rank, a row for what its
/// training thread does, one for exchanges, and one for each stream of a device that was traced.
std::string trace_events(const Profiler& profiler, int rank);

/// A kernel as people call it: "_ZN8lockstep4cuda11relu_kernelEPfS1_l" is
/// "lockstep::cuda::relu_kernel". What is not a compiler's name stays as it is.
std::string kernel_display_name(const std::string& name);

}  // namespace lockstep
