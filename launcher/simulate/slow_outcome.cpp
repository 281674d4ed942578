// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/slow_outcome.h"

#include <algorithm>
#include <fmt/format.h>

#include "parallel/simulation/fault_detection.h"

namespace lockstep {

FaultOutcome outcome_of_slow(const StormRequest& request,
                             const simulation::PlantedFault& fault,
                             std::span<const std::pair<double, double>> trained) {
  FaultOutcome outcome{.fault = fault, .met_in = "training"};
  outcome.note = fmt::format("steps take x{:g}", fault.factor);
  const std::vector<int> hit = ranks_hit(fault, request.ranks, request.ranks_per_host);
  for (const auto& [begin, end] : trained) {
    const double from = std::max(begin, fault.at), until = std::min(end, fault.end());
    if (until <= from) continue;
    const auto found = simulation::detect_slow(request.ranks,
                                               hit,
                                               fault.factor,
                                               request.step_s,
                                               request.micro_batches,
                                               request.spread,
                                               until - from,
                                               request.seed);
    if (!found) continue;
    outcome.named = found->rank;
    outcome.verdict = "slow";
    outcome.is_right = std::ranges::binary_search(hit, found->rank);
    outcome.detected_s = from - fault.at + found->seconds;
    break;
  }
  return outcome;
}

}  // namespace lockstep
