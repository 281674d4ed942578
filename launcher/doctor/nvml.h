// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/doctor/environment.h"
#include "launcher/doctor/gpu_facts.h"

namespace lockstep::doctor {

/// Asks libnvidia-ml.so.1 about the GPUs that `facts` has already from CUDA.
void read_management(const Environment& environment, GpuFacts& facts);

}  // namespace lockstep::doctor
