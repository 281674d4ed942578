// SPDX-License-Identifier: Apache-2.0
// Bytes between hosts of sharded buckets, and of the library's sums.
#include "parallel/exchange/host_traffic.h"

#include <gtest/gtest.h>

#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

// One node a rank, and a host: of a bucket half of what hosts send is gradients, half weights. On
// one level, with a last host of fewer ranks, and on two.
TEST(HostTraffic, WeightsInBf16AreHalfOfTheirBytes) {
  const std::vector<ShardRange> owners = shard_owners(8, 8, 1);
  for (const int per_host : {3, 2}) {
    const auto traffic = [&](std::int64_t bf16) {
      const Bucket bucket{.elems = 1 << 20, .sharded = true, .bf16_elems = bf16};
      return host_traffic({&bucket, 1}, 8, owners, per_host, Reduction::reproducible);
    };
    EXPECT_EQ(traffic(0).levels, per_host == 2 ? 2 : 1);
    EXPECT_DOUBLE_EQ(traffic(1 << 20).all, 0.75 * traffic(0).all);
    EXPECT_DOUBLE_EQ(traffic(1 << 20).busiest, 0.75 * traffic(0).busiest);
    EXPECT_DOUBLE_EQ(traffic(1 << 19).all, 0.875 * traffic(0).all);
  }
}

// n (H - 1) (k + w) / H of n = 4 MiB, on 3 hosts of 2 ranks with k = 2 nodes each, and w of bf16.
TEST(HostTraffic, AShardedBucketSendsItsHostsNodesAndWeights) {
  const Bucket bucket{.elems = 3 << 18, .sharded = true, .bf16_elems = 3 << 18};
  const std::vector<ShardRange> owners = shard_owners(18, 6, 1);  // 4 + 2, 2 + 4 and 4 + 2 shards
  const HostTraffic traffic = host_traffic({&bucket, 1}, 18, owners, 2, Reduction::reproducible);
  EXPECT_EQ(traffic.levels, 2);
  EXPECT_DOUBLE_EQ(traffic.busiest, 3.0 * (1 << 20) * 2 * (2 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(traffic.all, 3 * traffic.busiest);
}

TEST(HostTraffic, FastIsARing) {
  const Bucket bucket{0, 1 << 20};
  const std::vector<ShardRange> owners = shard_owners(64, 16, 1);
  const HostTraffic traffic = host_traffic({&bucket, 1}, 64, owners, 8, Reduction::fast);
  EXPECT_EQ(traffic.levels, 1);
  EXPECT_DOUBLE_EQ(traffic.busiest, 2.0 * 15 / 16 * (4 << 20));
  EXPECT_DOUBLE_EQ(traffic.all, 2 * traffic.busiest);
}

}  // namespace
}  // namespace lockstep
