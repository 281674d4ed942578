// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/slow_outcome.h"

#include <algorithm>
#include <fmt/format.h>

#include "parallel/simulation/fault_detection.h"

namespace lockstep {

using simulation::PlantedFault;

SlowRanks::SlowRanks(const StormRequest& request) : request_(&request) {
  for (const PlantedFault& fault : request.faults)
    if (fault.factor > 1) slow_.push_back({fault, fault.end()});
}

void SlowRanks::replace_host(int host, double at) {
  for (auto& [fault, until] : slow_) {
    const bool is_rank = scope_of(fault.kind) == simulation::FaultScope::rank;
    const int hit = is_rank ? fault.who / request_->ranks_per_host : fault.who;
    if (fault.at <= at && hit == host) until = std::min(until, at);
  }
}

double SlowRanks::factor(double now) const {
  double most = 1;
  for (const auto& [fault, until] : slow_)
    if (fault.at <= now && now < until) most = std::max(most, fault.factor);
  return most;
}

double SlowRanks::next_change(double now) const {
  double next = PlantedFault::kForEver;
  for (const auto& [fault, until] : slow_)
    for (const double change : {fault.at, until})
      if (change > now) next = std::min(next, change);
  return next;
}

std::vector<FaultOutcome> SlowRanks::outcomes(
    std::span<const std::pair<double, double>> trained) const {
  std::vector<FaultOutcome> outcomes;
  for (const Slow& slow : slow_) outcomes.push_back(outcome_of(slow, trained));
  return outcomes;
}

FaultOutcome SlowRanks::outcome_of(const Slow& slow,
                                   std::span<const std::pair<double, double>> trained) const {
  const StormRequest& request = *request_;
  const auto& [fault, until] = slow;
  FaultOutcome outcome{.fault = fault, .met_in = "training"};
  outcome.note = fmt::format("steps take x{:g}", fault.factor);
  if (until < fault.end()) outcome.note += " until its host is replaced";
  const std::vector<int> hit = ranks_hit(fault, request.ranks, request.ranks_per_host);
  // Each time the ranks train scores begin anew, and come to the same.
  double longest = 0;
  for (const auto& [begin, end] : trained)
    longest = std::max(longest, std::min(end, until) - std::max(begin, fault.at));
  const auto found = simulation::detect_slow(request.ranks,
                                             hit,
                                             fault.factor,
                                             request.step_s,
                                             request.micro_batches,
                                             request.spread,
                                             longest,
                                             request.seed);
  if (!found) return outcome;
  outcome.named = found->rank;
  outcome.verdict = "slow";
  outcome.is_right = std::ranges::binary_search(hit, found->rank);
  for (const auto& [begin, end] : trained) {
    const double from = std::max(begin, fault.at);
    if (std::min(end, until) - from < std::min(found->seconds, longest)) continue;
    outcome.detected_s = from - fault.at + found->seconds;
    break;
  }
  return outcome;
}

}  // namespace lockstep
