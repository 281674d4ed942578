// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "core/exec/communicator.h"
#include "lockstep/time_breakdown.h"

namespace lockstep {

/// `own` and `queued` of every rank, in rank order, on rank 0; empty on the others. Collective.
std::vector<RankTimeBreakdown> gather_time_breakdowns(Communicator& communicator,
                                                      const TimeBreakdown& own,
                                                      std::optional<double> queued);

}  // namespace lockstep
