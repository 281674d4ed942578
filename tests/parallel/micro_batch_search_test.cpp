// SPDX-License-Identifier: Apache-2.0
// The largest micro-batch within a limit, of bytes that rise in ranges.
#include "parallel/memory/micro_batch_search.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// As gradients do that are divided where no shard has several micro-batches.
TEST(MicroBatchSearch, FindsSizesBeyondAFall) {
  for (const int shards : {0, 40}) {
    const TrainOptions options{.global_batch = 1000, .shards = shards};
    const std::int64_t divided = shards == 0 ? 16 : 25;  // 63 and 40 micro-batches
    const auto bytes = [divided](std::int64_t micro_batch) {
      return std::size_t((micro_batch < divided ? 1000 : 250) + 10 * micro_batch);
    };
    for (const std::int64_t largest : {divided, std::int64_t{28}, std::int64_t{200}})
      EXPECT_EQ(largest_within(bytes, options, 500, bytes(largest)), largest);
    EXPECT_EQ(largest_within(bytes, options, 500, bytes(500)), 500);
    EXPECT_EQ(largest_within(bytes, options, 500, bytes(divided) - 1), 0);
    EXPECT_EQ(largest_within(bytes, options, divided - 1, bytes(7)), 7);
  }
}

}  // namespace
}  // namespace lockstep
