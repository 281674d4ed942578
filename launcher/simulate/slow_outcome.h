// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>

#include "launcher/simulate/storm_request.h"

namespace lockstep {

/// Whom the run's watch for slow ranks names of `fault`, which slows ranks, and when. `trained`:
/// begin and end of the times in which the ranks trained.
FaultOutcome outcome_of_slow(const StormRequest& request,
                             const simulation::PlantedFault& fault,
                             std::span<const std::pair<double, double>> trained);

}  // namespace lockstep
