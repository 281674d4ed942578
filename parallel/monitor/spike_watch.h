// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Running mean and variance of a run's losses; kept in checkpoints, so that a resumed run
/// sees the spikes that an undisturbed one sees.
struct LossStatistics {
  double mean = 0;
  double variance = 0;
  std::int64_t count = 0;  ///< losses counted
};

/// Tells a loss that jumps. Value x is a spike where, over the values before it,
///   x > mean + 6 * sqrt(variance)  and  x > 1.5 * mean,
/// and at least kWarmUp values have been counted. Any other value is counted as value n:
///   a = max(0.01, 1 / n);  d = x - mean
///   mean += a * d;  variance = (1 - a) * (variance + a * d^2)
/// which is the plain mean and variance up to 100 values and then weighs exponentially with a time
/// constant of 100 (Finch, "Incremental calculation of weighted mean and variance", 2009, section
/// 9). The second condition lets flat losses, whose spread is next to nothing, move. Depends on the
/// values alone: equal losses give equal answers on every rank.
class SpikeWatch {
 public:
  static constexpr std::int64_t kWarmUp = 50;
  static constexpr double kSpreads = 6, kTimesMean = 1.5, kMinWeight = 0.01;

  SpikeWatch() = default;
  explicit SpikeWatch(const LossStatistics& statistics) : statistics_(statistics) {}

  /// Takes `loss`, which is finite, in and answers false, or answers that it is a spike.
  bool spikes(double loss);
  const LossStatistics& statistics() const { return statistics_; }
  double spread() const;

 private:
  LossStatistics statistics_;
};

}  // namespace lockstep
