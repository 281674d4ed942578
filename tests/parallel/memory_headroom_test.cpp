// SPDX-License-Identifier: Apache-2.0
// What ranks with different memory have room for.
#include "parallel/memory/memory_headroom.h"

#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "tests/support/metered_backend.h"
#include "tests/support/mpi_world.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class PretendedContext final : public RankContext {
 public:
  explicit PretendedContext(DeviceMemory memory) { metered_.pretended = std::move(memory); }
  Backend& backend() override { return metered_; }
  Communicator& communicator() override { return testing::mpi_world(); }

 private:
  testing::MeteredBackend metered_{std::make_unique<testing::NullBackend>()};
};

/// Of the rank that has the least, of those that say.
MemoryHeadroom room(DeviceMemory own) {
  PretendedContext context(std::move(own));
  MemoryHeadroom room = least_headroom(testing::mpi_world(), memory_headroom(context));
  std::vector<std::uint64_t> all(std::size_t(context.size()));
  const std::uint64_t bytes = room.bytes.value_or(7);
  testing::mpi_world().all_gather(&bytes, all.data(), sizeof bytes);
  for (const std::uint64_t other : all) EXPECT_EQ(other, bytes) << "differs between ranks";
  return room;
}

int own_rank() { return testing::mpi_world().rank(); }
int ranks() { return testing::mpi_world().size(); }

TEST(MemoryHeadroom, OfDevicesIsThatOfTheSmallest) {
  const bool small = own_rank() == ranks() - 1;
  const MemoryHeadroom least = room({.free = small ? 3 * kGiB : 10 * kGiB,
                                     .total = 16 * kGiB,
                                     .pool = "gpu " + std::to_string(own_rank())});
  EXPECT_EQ(least.bytes, 3 * kGiB);
  EXPECT_EQ(least.kept, 0u);
  EXPECT_EQ(least.rank, ranks() - 1);
  EXPECT_EQ(least.colocated_ranks, 1);
  EXPECT_EQ(least.total, 16 * kGiB);
  EXPECT_THAT(to_string(least),
              HasSubstr("3.00 GiB of 16.00 GiB on rank " + std::to_string(ranks() - 1)));
}

TEST(MemoryHeadroom, OfDevicesLeavesWhatCollectivesWillTake) {
  PretendedContext context(
      {.free = 3 * kGiB, .total = 16 * kGiB, .pool = "gpu " + std::to_string(own_rank())});
  const bool takes_more = own_rank() == ranks() - 1;
  const MemoryHeadroom own = memory_headroom(context, takes_more ? 1 * kGiB : kGiB / 2);
  const MemoryHeadroom last = headroom_of_rank(testing::mpi_world(), own, ranks() - 1);
  EXPECT_EQ(last.rank, ranks() - 1);
  EXPECT_EQ(last.bytes, 2 * kGiB);
  EXPECT_EQ(last.kept, 1 * kGiB);
  EXPECT_EQ(memory_headroom(context, 4 * kGiB).bytes, 0u);
}

TEST(MemoryHeadroom, OfASharedDeviceIsAnEqualPart) {
  const MemoryHeadroom least = room({.free = 12 * kGiB + 5, .total = 16 * kGiB, .pool = "gpu 0"});
  EXPECT_EQ(least.bytes, (12 * kGiB + 5) / std::uint64_t(ranks()));
  EXPECT_EQ(least.colocated_ranks, ranks());
  EXPECT_EQ(least.rank, 0);
  if (ranks() == 1) return;
  EXPECT_THAT(
      to_string(least),
      HasSubstr(ranks() == 2 ? "half of the memory that its 2 ranks share" : "4 equal parts"));
}

/// What a rank reads while others already reserve is less: the least counts for all.
TEST(MemoryHeadroom, OfASharedDeviceIsWhatTheLastToReadHasSeen) {
  const MemoryHeadroom least =
      room({.free = 12 * kGiB - std::uint64_t(own_rank()), .total = 16 * kGiB, .pool = "gpu 0"});
  EXPECT_EQ(least.bytes, (12 * kGiB - std::uint64_t(ranks() - 1)) / std::uint64_t(ranks()));
}

TEST(MemoryHeadroom, OfTheHostLeavesSomethingForWhatNoPlanCounts) {
  const MemoryHeadroom least = room({.free = 8 * kGiB, .total = 16 * kGiB, .pool = ""});
  const std::uint64_t part = 8 * kGiB / std::uint64_t(ranks());
  EXPECT_EQ(*least.bytes + least.kept, part);
  EXPECT_GT(least.kept, part / 40);
  EXPECT_LT(least.kept, part / 10);
  const MemoryHeadroom none = room({.free = 1000, .total = 16 * kGiB, .pool = ""});
  EXPECT_EQ(none.bytes, 0u);
}

TEST(MemoryHeadroom, GroupsWithLimitsOfTheirOwnDoNotShare) {
  const MemoryHeadroom least = room({.free = 8 * kGiB,
                                     .total = 8 * kGiB,
                                     .pool = "",
                                     .group = "/task_" + std::to_string(own_rank())});
  EXPECT_EQ(*least.bytes + least.kept, 8 * kGiB);
  EXPECT_EQ(least.colocated_ranks, 1);
}

TEST(MemoryHeadroom, ALimitOfOneProcessIsNotDivided) {
  const bool limited = own_rank() == ranks() - 1;
  const MemoryHeadroom least = room({.free = 100 * kGiB,
                                     .total = 128 * kGiB,
                                     .pool = "",
                                     .group = "",
                                     .own = limited ? std::optional(2 * kGiB) : std::nullopt});
  EXPECT_EQ(*least.bytes + least.kept, 2 * kGiB);
  EXPECT_EQ(least.rank, ranks() - 1);
  EXPECT_EQ(least.colocated_ranks, 1);
  EXPECT_TRUE(least.own_limit);
  EXPECT_THAT(to_string(least), HasSubstr("ulimit -v"));
}

/// Rank 0 and the last share a device, where there are more than two.
TEST(MemoryHeadroom, OfEachRankSaysWhoSharesIt) {
  const bool with_first = own_rank() == 0 || (ranks() > 2 && own_rank() == ranks() - 1);
  PretendedContext context({.free = 8 * kGiB,
                            .total = 16 * kGiB,
                            .pool = "gpu " + std::to_string(with_first ? 0 : own_rank())});
  const MemoryHeadroom own = memory_headroom(context);
  for (int r = 0; r < ranks(); ++r) {
    const MemoryHeadroom room = headroom_of_rank(testing::mpi_world(), own, r);
    const bool shares = r == 0 || (ranks() > 2 && r == ranks() - 1);
    EXPECT_EQ(room.rank, r);
    EXPECT_EQ(room.colocated_ranks, shares && ranks() > 2 ? 2 : 1) << r;
  }
}

TEST(MemoryHeadroom, WhereNobodySaysIsUnknown) {
  const MemoryHeadroom unknown = room({});
  EXPECT_FALSE(unknown.bytes.has_value());
  const MemoryHeadroom one =
      room({.free = own_rank() == ranks() - 1 ? std::optional(kGiB) : std::nullopt,
            .total = 0,
            .pool = "gpu " + std::to_string(own_rank())});
  EXPECT_EQ(one.bytes, kGiB);
  EXPECT_EQ(one.rank, ranks() - 1);
}

}  // namespace
}  // namespace lockstep
