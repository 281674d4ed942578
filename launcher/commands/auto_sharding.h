// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/settings/train_flags.h"
#include "lockstep/rank_context.h"
#include "parallel/memory/memory_advisor.h"

namespace lockstep {

/// Sets in `flags` what `--shard auto` stands for in this run, choose_sharding() for `request` in
/// `room`, the most of any rank: its config.toml has it, and a resumed run keeps it. Returns why,
/// for people. Collective.
std::string resolve_sharding(RankContext& context,
                             const PlanRequest& request,
                             const MemoryTarget& room,
                             TrainFlags& flags);

}  // namespace lockstep
