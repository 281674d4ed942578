// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/doctor/environment.h"
#include "launcher/doctor/finding.h"
#include "launcher/doctor/gpu_facts.h"

namespace lockstep::doctor {

/// All checks, in the order in which people read them. Those that find no GPU to look at are one
/// line. A check that throws is a failed one. Takes some seconds: it measures.
Findings examine(const Environment& environment, const GpuFacts& facts);

}  // namespace lockstep::doctor
