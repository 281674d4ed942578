// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/backend.h"
#include "kernels/cuda/device/device.h"

/// Backend's functions of the same names: captures of the compute stream, and of what waits for it
/// and is waited for by it.
namespace lockstep::cuda {

void begin_capture(const Device& device);
std::unique_ptr<DeviceGraph> end_capture(const Device& device);
void abandon_capture(const Device& device) noexcept;

}  // namespace lockstep::cuda
