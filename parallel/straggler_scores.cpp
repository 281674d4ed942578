// SPDX-License-Identifier: Apache-2.0
#include "parallel/straggler_scores.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::ranges::sort(values);
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// What rank `own` of those in `values` is measured by: of two the other one.
double measure(const std::vector<double>& values, std::size_t own) {
  return values.size() == 2 ? values[1 - own] : median(values);
}

void add_to(RankWork& sum, const RankWork& work) {
  sum.loading += work.loading;
  sum.compute += work.compute;
  sum.micro_batches += work.micro_batches;
}

}  // namespace

StragglerScores::StragglerScores(std::vector<bool> crowded)
    : ranks_(crowded.size()), window_(crowded.size()), total_(crowded.size()) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].crowded = crowded[r];
}

void StragglerScores::add(std::span<const RankWork> work, std::int64_t steps) {
  news_.clear();
  // The slowest one is who the others wait for: its time is how long it took all of them.
  double longest = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    add_to(window_[r], work[r]);
    longest = std::max(longest, work[r].loading + work[r].compute);
  }
  window_seconds_ += longest;
  window_steps_ += steps;
  if (window_seconds_ < kWindow) return;
  if (warm_) close_window();
  warm_ = true;
  std::ranges::fill(window_, RankWork{});
  window_seconds_ = 0;
  window_steps_ = 0;
}

void StragglerScores::close_window() {
  const double weight = 1 - std::exp(-window_seconds_ / kSmoothing);
  std::vector<RankWork> means(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    add_to(total_[r], window_[r]);
    smooth(ranks_[r], window_[r], weight);
    means[r] = {ranks_[r].loading, ranks_[r].compute, ranks_[r].known ? 1.0 : 0.0};
  }
  for (const RankScore& score : scores(means)) {
    Rank& rank = ranks_[std::size_t(score.rank)];
    if (score.score < kRecovered) rank.named = false;
    if (score.score <= kSlow) {
      rank.slow_seconds = 0;
      rank.slow_steps = 0;
      continue;
    }
    rank.slow_seconds += window_seconds_;
    rank.slow_steps += window_steps_;
    if (rank.named || rank.slow_seconds < kSlowSeconds || rank.slow_steps < kSlowSteps) continue;
    rank.named = true;
    news_.push_back(score);
  }
}

void StragglerScores::smooth(Rank& rank, const RankWork& work, double weight) const {
  if (work.micro_batches <= 0) return;
  const double loading = work.loading / work.micro_batches,
               compute = work.compute / work.micro_batches;
  if (!rank.known) {
    rank.known = true;
    rank.loading = loading;
    rank.compute = compute;
    return;
  }
  const double most = kMostGrowth * (rank.loading + rank.compute), now = loading + compute;
  const double share = now > most ? most / now : 1;
  rank.loading += weight * (share * loading - rank.loading);
  rank.compute += weight * (share * compute - rank.compute);
}

std::vector<RankScore> StragglerScores::scores(std::span<const RankWork> work) const {
  std::vector<int> ranks;
  std::vector<double> loading, compute, both;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (work[r].micro_batches <= 0) continue;
    ranks.push_back(int(r));
    loading.push_back(work[r].loading / work[r].micro_batches);
    compute.push_back(work[r].compute / work[r].micro_batches);
  }
  std::vector<RankScore> result;
  if (ranks.size() < 2) return result;
  const double usual_compute = median(compute);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks_[std::size_t(ranks[i])].crowded) compute[i] = usual_compute;
    both.push_back(loading[i] + compute[i]);
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double its_loading = measure(loading, i), its_compute = measure(compute, i),
                 its_both = measure(both, i);
    const bool in_loading = loading[i] - its_loading > compute[i] - its_compute;
    result.push_back({.rank = ranks[i],
                      .score = its_both > 0 ? both[i] / its_both : 1,
                      .in_loading = in_loading,
                      .seconds = in_loading ? loading[i] : compute[i],
                      .median_seconds = in_loading ? its_loading : its_compute});
  }
  return result;
}

std::optional<RankScore> StragglerScores::slowest() const {
  const std::vector<RankScore> all = scores(total_);
  if (all.empty()) return std::nullopt;
  return *std::ranges::max_element(all, {}, &RankScore::score);
}

}  // namespace lockstep
