// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"
#include "kernels/cuda/device/device.h"

namespace lockstep::cuda {

/// GEMMs of 8192^3 through MatrixProduct, and a copy of 1 GiB (less where memory is
/// short), timed by events. Zero where the device is emulated.
DevicePeaks measure_peaks(const Device& device);

}  // namespace lockstep::cuda
