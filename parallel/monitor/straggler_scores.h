// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

/// Seconds that a rank took for its whole micro-batches. Short ones, which take longer a sample, do
/// not count.
struct RankWork {
  double loading = 0;   ///< waiting for samples
  double compute = 0;   ///< forward and backward
  double loaded = 0;    ///< micro-batches that `loading` is of
  double computed = 0;  ///< that `compute` is of: fewer where a graph's launch did the work of some
};

/// A rank compared with the others. Times are for one micro-batch.
struct RankScore {
  int rank = -1;
  double score = 0;         ///< its time over the median of all ranks (of two: over the other's)
  bool in_loading = false;  ///< where it loses more; otherwise in compute
  double seconds = 0;       ///< in that phase
  double median_seconds = 0;
};

/// Finds ranks that are slower than the others, by what each took itself before it waits for them.
///
/// Times are gathered over windows of kWindow seconds of work and smoothed with a time constant of
/// kSmoothing seconds; a window counts as at most twice kWindow, and with at most kMaxGrowth times
/// what was smoothed before, so that one hiccup is soon forgotten. The first window, in which
/// caches and loaders warm up, does not count. Ranks that never had a whole micro-batch take no
/// part. While the compute time of one of the ranks is unknown, loading alone counts.
class StragglerScores {
 public:
  static constexpr double kWindow = 0.5;
  static constexpr double kSmoothing = 2;
  static constexpr double kMaxGrowth = 3;
  /// A rank is slow that is above kSlow for kSlowSeconds of work and kSlowSteps steps, and until it
  /// is below kRecovered.
  static constexpr double kSlow = 1.3, kRecovered = 1.15;
  static constexpr double kSlowSeconds = 5;
  static constexpr std::int64_t kSlowSteps = 20;

  /// `oversubscribed` ranks share processors with others of them. Such a rank may have to itself
  /// what two others share: what it takes to compute counts from twice the median on, by half.
  explicit StragglerScores(std::vector<bool> oversubscribed);

  /// What ranks did since the last call, in `steps` steps. Allocates nothing.
  void add(std::span<const RankWork> work, std::int64_t steps);
  /// Ranks that have become slow with the last add().
  std::span<const RankScore> news() const { return news_; }
  /// Over all that was added; nothing where fewer than two ranks had work.
  std::optional<RankScore> slowest();

 private:
  struct Rank {
    bool oversubscribed = false;
    RankWork mean;            // smoothed, for one micro-batch; 1 or 0 of each
    double slow_seconds = 0;  // for how long it has been above kSlow
    std::int64_t slow_steps = 0;
    bool named = false;
  };
  void close_window();
  void smooth(RankWork& mean, const RankWork& work, double weight) const;
  /// Fills scored_.
  void score(std::span<const RankWork> work);
  /// What value `own` of `values` is measured by: their `median`, of two the other one.
  static double measure(std::span<const double> values, std::size_t own, double median);
  double median(std::span<const double> values);

  std::vector<Rank> ranks_;
  std::vector<RankWork> window_, total_;
  double window_seconds_ = 0;
  std::int64_t window_steps_ = 0;
  bool warm_ = false;
  std::vector<RankScore> news_;
  // Reserved for score().
  std::vector<RankWork> means_;
  std::vector<RankScore> scored_;
  std::vector<double> loading_, compute_, judged_, sorted_;
};

}  // namespace lockstep
