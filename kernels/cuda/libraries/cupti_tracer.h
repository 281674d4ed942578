// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/profile/device_tracer.h"
#include "kernels/cuda/device/device_tools.h"
#include "kernels/cuda/libraries/dynamic_library.h"

namespace lockstep::cuda {

/// "libcupti.so.13", of the toolkit that this was built with.
LibraryName cupti_name();

/// Host memory that CUPTI writes into: kCuptiBuffers pieces of so many bytes. While all are full
/// and none has been read, activities are lost, and counted.
inline constexpr std::size_t kCuptiBufferBytes = std::size_t{2} << 20;
inline constexpr std::size_t kCuptiBuffers = 16;

/// Times kernels, copies and fills through the activity API of the CUPTI that `name` names. It is
/// opened by the first call and stays open. Throws EnvironmentError: it cannot be opened,
/// lacks a function, or is of another version.
std::unique_ptr<DeviceTracer> make_cupti_tracer(const LibraryName& name, NamedStreams streams = {});

}  // namespace lockstep::cuda
