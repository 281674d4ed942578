// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::cuda {

/// Runs the algorithms that a library offers for one operator, each on the same inputs.
class CandidateRunner {
 public:
  virtual ~CandidateRunner() = default;
  /// Runs a candidate; a hash of what it stored.
  virtual std::uint64_t result_hash(std::size_t candidate) = 0;
  /// Runs it again; seconds by the device's clock.
  virtual double seconds(std::size_t candidate) = 0;
};

/// What a trial found.
struct TrialResult {
  std::optional<std::size_t> fastest;  ///< nothing: no candidate is left
  double seconds = 0;                  ///< the median of the fastest
  std::vector<std::size_t> nondeterministic, refused;
  std::vector<double> medians;  ///< of each candidate, in seconds; 0: it is out
};

/// Times `count` candidates, the library's favourite first. Each runs twice, and one that stores
/// different bits is out, whatever the library says of it, as is one that throws an Error. The
/// others run kTrialRounds times in turn, so that a clock that changes meets all alike; the lowest
/// median wins. The first that is left stays unless another is faster by more than kTrialMargin, so
/// that noise changes little.
TrialResult try_candidates(std::size_t count, CandidateRunner& runner);

inline constexpr int kTrialRounds = 7;
inline constexpr double kTrialMargin = 0.02;

}  // namespace lockstep::cuda
