// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/straggler_scores.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

void add_to(RankWork& sum, const RankWork& work) {
  sum.loading += work.loading;
  sum.compute += work.compute;
  sum.loaded += work.loaded;
  sum.computed += work.computed;
}

}  // namespace

StragglerScores::StragglerScores(std::vector<bool> oversubscribed)
    : ranks_(oversubscribed.size()),
      window_(oversubscribed.size()),
      total_(oversubscribed.size()),
      means_(oversubscribed.size()) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].oversubscribed = oversubscribed[r];
  news_.reserve(ranks_.size());
  scored_.reserve(ranks_.size());
  for (std::vector<double>* values : {&loading_, &compute_, &judged_, &sorted_})
    values->reserve(ranks_.size());
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
  // A step that hung for a minute is not a minute of evidence.
  const double seconds = std::min(window_seconds_, 2 * kWindow);
  const double weight = 1 - std::exp(-seconds / kSmoothing);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    add_to(total_[r], window_[r]);
    smooth(ranks_[r].mean, window_[r], weight);
    means_[r] = ranks_[r].mean;
  }
  score(means_);
  for (const RankScore& scored : scored_) {
    Rank& rank = ranks_[std::size_t(scored.rank)];
    if (scored.score < kRecovered) rank.named = false;
    if (scored.score <= kSlow) {
      rank.slow_seconds = 0;
      rank.slow_steps = 0;
      continue;
    }
    rank.slow_seconds += seconds;
    rank.slow_steps += window_steps_;
    if (rank.named || rank.slow_seconds < kSlowSeconds || rank.slow_steps < kSlowSteps) continue;
    rank.named = true;
    news_.push_back(scored);
  }
}

void StragglerScores::smooth(RankWork& mean, const RankWork& work, double weight) const {
  if (work.loaded <= 0) return;
  const bool computes = work.computed > 0;
  const double loading = work.loading / work.loaded,
               compute = computes ? work.compute / work.computed : mean.compute;
  const double most = kMaxGrowth * (mean.loading + mean.compute), now = loading + compute;
  const bool bounded = mean.loaded > 0 && mean.computed > 0 && now > most;
  const double share = bounded ? most / now : 1;
  mean.loading += (mean.loaded > 0 ? weight : 1) * (share * loading - mean.loading);
  mean.loaded = 1;
  if (!computes) return;
  mean.compute += (mean.computed > 0 ? weight : 1) * (share * compute - mean.compute);
  mean.computed = 1;
}

void StragglerScores::score(std::span<const RankWork> work) {
  scored_.clear();
  for (std::vector<double>* values : {&loading_, &compute_, &judged_}) values->clear();
  const bool computes = std::ranges::all_of(
      work, [](const RankWork& rank) { return rank.loaded <= 0 || rank.computed > 0; });
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (work[r].loaded <= 0) continue;
    scored_.push_back({.rank = int(r)});
    loading_.push_back(work[r].loading / work[r].loaded);
    compute_.push_back(computes ? work[r].compute / work[r].computed : 0);
  }
  if (scored_.size() < 2) {
    scored_.clear();
    return;
  }
  const double usual_compute = median(compute_);
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    const bool oversubscribed = ranks_[std::size_t(scored_[i].rank)].oversubscribed;
    const double compute = oversubscribed ? std::max(usual_compute, compute_[i] / 2) : compute_[i];
    judged_.push_back(loading_[i] + compute);
  }
  const double of_loading = median(loading_), of_judged = median(judged_);
  for (std::size_t i = 0; i < scored_.size(); ++i) {
    const double loading = measure(loading_, i, of_loading),
                 compute = measure(compute_, i, usual_compute),
                 both = measure(judged_, i, of_judged);
    RankScore& scored = scored_[i];
    scored.score = both > 0 ? judged_[i] / both : 1;
    scored.in_loading = loading_[i] - loading > compute_[i] - compute;
    scored.seconds = scored.in_loading ? loading_[i] : compute_[i];
    scored.median_seconds = scored.in_loading ? loading : compute;
  }
}

double StragglerScores::measure(std::span<const double> values, std::size_t own, double median) {
  return values.size() == 2 ? values[1 - own] : median;
}

double StragglerScores::median(std::span<const double> values) {
  sorted_.assign(values.begin(), values.end());
  std::ranges::sort(sorted_);
  const std::size_t middle = sorted_.size() / 2;
  return sorted_.size() % 2 == 1 ? sorted_[middle] : (sorted_[middle - 1] + sorted_[middle]) / 2;
}

std::optional<RankScore> StragglerScores::slowest() {
  score(total_);
  if (scored_.empty()) return std::nullopt;
  return *std::ranges::max_element(scored_, {}, &RankScore::score);
}

}  // namespace lockstep
