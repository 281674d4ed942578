// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/exec/backend.h"
#include "kernels/cuda/device/device.h"

namespace lockstep::cuda {

/// Memory of the device, which the compute stream sets to zero unless LOCKSTEP_CLEAR is 0. Throws
/// OutOfMemory, naming `what`.
std::unique_ptr<DeviceBuffer> make_device_buffer(const Device& device,
                                                 std::size_t bytes,
                                                 const std::string& what);

/// Memory of the host that copies read and write while the host continues, zeros. Throws
/// OutOfMemory, naming `what`.
std::unique_ptr<DeviceBuffer> make_pinned_buffer(std::size_t bytes, const std::string& what);

}  // namespace lockstep::cuda
