// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/algorithm_trial.h"

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::cuda {

TrialResult try_candidates(std::size_t count, CandidateRunner& runner) {
  TrialResult result;
  result.medians.resize(count);
  std::vector<std::size_t> left;
  for (std::size_t candidate = 0; candidate < count; ++candidate) {
    try {
      const bool same = runner.result_hash(candidate) == runner.result_hash(candidate);
      (same ? left : result.nondeterministic).push_back(candidate);
    } catch (const Error&) {
      result.refused.push_back(candidate);
    }
  }
  std::vector<std::vector<double>> seconds(left.size());
  for (int round = 0; round < kTrialRounds; ++round)
    for (std::size_t i = 0; i < left.size(); ++i) seconds[i].push_back(runner.seconds(left[i]));
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto middle = seconds[i].begin() + kTrialRounds / 2;
    std::ranges::nth_element(seconds[i], middle);
    result.medians[left[i]] = *middle;
    // Only the first has an advantage.
    const double needed =
        result.fastest == left[0] ? result.seconds * (1 - kTrialMargin) : result.seconds;
    if (result.fastest && *middle >= needed) continue;
    result.fastest = left[i];
    result.seconds = *middle;
  }
  return result;
}

}  // namespace lockstep::cuda
