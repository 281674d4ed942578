// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/peaks.h"

namespace lockstep::cuda {

DevicePeaks measure_peaks(const Device&) { return {}; }

}  // namespace lockstep::cuda
