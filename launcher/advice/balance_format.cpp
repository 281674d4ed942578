// SPDX-License-Identifier: Apache-2.0
#include "launcher/advice/balance_format.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

#include "parallel/batch/batch_plan.h"

namespace lockstep {
namespace {

constexpr int kMaxRankCount = 1024;        // that is looked at
constexpr std::size_t kMaxIntervals = 12;  // that are printed

std::vector<std::string> intervals_of(const std::vector<int>& counts) {
  std::vector<std::string> intervals;
  for (std::size_t first = 0; first < counts.size();) {
    std::size_t last = first;
    while (last + 1 < counts.size() && counts[last + 1] == counts[last] + 1) ++last;
    intervals.push_back(first == last ? fmt::format("{}", counts[first])
                                      : fmt::format("{}-{}", counts[first], counts[last]));
    first = last + 1;
  }
  return intervals;
}

}  // namespace

std::string format_balance(const BatchPlan& batch) {
  const double balance = rank_balance(batch);
  const auto rounds = std::llround(double(batch.micro_batches) / (double(batch.ranks) * balance));
  if (batch.dealt)
    return fmt::format(
        "balance {:.1f}%: {} micro-batches take {} rounds, as ranks wait for each other after each "
        "shard",
        100 * balance,
        batch.micro_batches,
        rounds);
  return fmt::format("balance {:.1f}%: of {} micro-batches the rank that has most computes {}",
                     100 * balance,
                     batch.micro_batches,
                     rounds);
}

std::string format_balance_remedy(const BatchPlan& batch) {
  const auto shards = better_shards(batch);
  if (!shards) return {};
  BatchPlan better = batch;
  better.shards = *shards;
  return fmt::format(
      "--shards {} instead of {} has {:.1f}%; --shards auto balances any number of ranks as well "
      "as its micro-batches allow; both sum in another order, so that bits differ",
      *shards,
      batch.shards,
      100 * rank_balance(better));
}

std::string format_balanced_ranks(const TrainOptions& options, const BatchPlan& batch) {
  std::vector<std::string> intervals =
      intervals_of(balanced_rank_counts(options, batch, kMaxRankCount));
  const std::size_t all = intervals.size();
  if (all == 0) return fmt::format("{} shards balance no number of ranks", batch.shards);
  if (all > kMaxIntervals) intervals.resize(kMaxIntervals);
  const bool same_bits = options.reduction == Reduction::reproducible &&
                         options.batch_norm.kind != BatchNormPolicy::Kind::sync &&
                         options.accumulation == 0;
  return fmt::format("{} shards balance {}{} ranks{}",
                     batch.shards,
                     fmt::join(intervals, ", "),
                     all > kMaxIntervals ? " and some larger numbers of" : "",
                     same_bits ? ", with the same bits" : "");
}

}  // namespace lockstep
