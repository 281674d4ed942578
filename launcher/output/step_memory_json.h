// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/memory/memory_plan.h"

namespace lockstep {

/// memory.json: what is live of the arena while each operator of one micro-batch runs, as it was
/// planned; for `lockstep report`.
std::string step_memory_json(const MemoryPlan& plan);

}  // namespace lockstep
