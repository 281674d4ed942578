// SPDX-License-Identifier: Apache-2.0
// Which rank owns which chunk.
#include "core/plan/ownership.h"

#include <gmock/gmock.h>
#include <vector>

namespace lockstep {
namespace {

using ::testing::ElementsAre;

/// Two sharded buckets with one between that is not, and frozen parameters after them.
FlatSpace space_of(int ranks, int ranks_per_host) {
  FlatSpace space;
  space.ranks = ranks;
  space.ranks_per_host = ranks_per_host;
  space.buckets = {{.offset = 0, .elems = 4096 * ranks, .sharded = true},
                   {.offset = 4096 * ranks, .elems = 640},
                   {.offset = 4096 * ranks + 640, .elems = 8192 * ranks, .sharded = true}};
  space.elems = 3 * 4096 * ranks + 640 + 128;
  return space;
}

std::vector<int> owned_by(int ranks, int ranks_per_host) {
  std::vector<int> chunks;
  for (int rank = 0; rank < ranks; ++rank)
    chunks.push_back(owned_index(space_of(ranks, ranks_per_host), rank));
  return chunks;
}

TEST(Ownership, ChunksOfAPlaceOnAllHostsAreNeighbours) {
  EXPECT_THAT(owned_by(4, 2), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(owned_by(6, 2), ElementsAre(0, 3, 1, 4, 2, 5)) << "three hosts";
  EXPECT_THAT(owned_by(6, 3), ElementsAre(0, 2, 4, 1, 3, 5)) << "two hosts";
}

TEST(Ownership, IsByRankWhereThereIsOneLevel) {
  EXPECT_THAT(owned_by(4, 4), ElementsAre(0, 1, 2, 3)) << "one host";
  EXPECT_THAT(owned_by(4, 1), ElementsAre(0, 1, 2, 3)) << "a host for each rank";
  EXPECT_THAT(owned_by(5, 2), ElementsAre(0, 1, 2, 3, 4)) << "hosts of two and of one";
}

TEST(Ownership, EveryElementHasOneOwnerOrAll) {
  for (const int ranks : {1, 2, 4, 6, 12})
    for (int per_host = 1; per_host <= ranks; ++per_host) {
      const FlatSpace space = space_of(ranks, per_host);
      std::vector<int> owners(std::size_t(space.elems) / 64);
      for (int rank = 0; rank < ranks; ++rank) {
        const Ownership ownership(space, rank);
        EXPECT_EQ(ownership.divides(), true);
        EXPECT_EQ(ownership.elems(), Ownership(space, 0).elems());
        EXPECT_EQ(owned_chunk(space, space.buckets[2], rank).offset,
                  space.buckets[2].offset + 8192 * owned_index(space, rank));
        for (const OwnedStretch& stretch : ownership.stretches())
          for (std::int64_t i = stretch.offset; i < stretch.end(); i += 64)
            owners[std::size_t(i / 64)] += stretch.everywhere ? 0 : 1;
      }
      for (std::size_t i = 0; i < owners.size(); ++i) {
        const auto at = std::int64_t(i) * 64;
        const bool everywhere = (at >= space.buckets[1].offset && at < space.buckets[2].offset) ||
                                at >= space.buckets[2].offset + space.buckets[2].elems;
        ASSERT_EQ(owners[i], everywhere ? 0 : 1) << at;
      }
    }
}

}  // namespace
}  // namespace lockstep
