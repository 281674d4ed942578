// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/exchange_plan.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

/// Whether no member of `size` is larger than that of `most`.
bool covers(const ExchangeSize& most, const ExchangeSize& size) {
  return most.nodes >= size.nodes && most.own_nodes >= size.own_nodes && most.depth >= size.depth &&
         most.received_chunks >= size.received_chunks;
}

// Of schedules of up to `most` shards, with absent ones where a batch is not a multiple of the
// cluster; and the depth, of which a bound would cost an array of gradients a level, is that of one
// of them.
void expect_no_larger(int ranks, int rank, int most, Reduction reduction) {
  const ExchangeSize bound = max_exchange_size(most, ranks, rank, reduction);
  int depth = 0;
  for (int cluster = 1; cluster <= ranks; ++cluster) {
    if (ranks % cluster != 0) continue;
    const int shards = most / cluster * cluster;
    for (int samples = 1; samples <= shards; samples += samples + 20 < shards ? 7 : 1) {
      const Schedule schedule = make_schedule({samples, 1, shards, ranks, cluster}, rank);
      const ExchangeSize size =
          exchange_size(schedule.shards, schedule.shards_of_rank, rank, reduction);
      depth = std::max(depth, size.depth);
      ASSERT_TRUE(covers(bound, size))
          << samples << " of " << shards << " shards, clusters of " << cluster;
    }
  }
  EXPECT_TRUE(ranks > 1 || bound.depth == depth) << bound.depth << " for " << depth;
}

TEST(ExchangeSize, OfAnyBatchIsWithinTheBound) {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12})
    for (const int most : {ranks, 2 * ranks + 1, 97, 300})
      for (const int rank : {0, ranks / 2, ranks - 1})
        for (const Reduction reduction : {Reduction::reproducible, Reduction::fast}) {
          SCOPED_TRACE(fmt::format("{} shards, rank {} of {}", most, rank, ranks));
          ASSERT_NO_FATAL_FAILURE(expect_no_larger(ranks, rank, most, reduction));
        }
}

}  // namespace
}  // namespace lockstep
