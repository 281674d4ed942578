// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"

namespace lockstep::cpu {

/// Best of several runs on this core: the matrix library's GEMMs of 1024 x 1024 matrices, and
/// out = a + b over arrays that no cache holds.
DevicePeaks measure_peaks();

}  // namespace lockstep::cpu
