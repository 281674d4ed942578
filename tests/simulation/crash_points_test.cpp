// SPDX-License-Identifier: Apache-2.0
// Ranks that die anywhere in a save, of the library's own training.
#include "parallel/simulation/crash_points.h"

#include <gmock/gmock.h>

#include "tests/simulation/simulated_training.h"

namespace lockstep::simulation {
namespace {

TEST(CrashPoints, WhereverARankDiesInASaveTheRunGoesOnFromAWholeCheckpoint) {
  const CrashPoints points = try_crash_points(small_saves(scratch_in_memory("crash_points")));
  EXPECT_THAT(points.failures, ::testing::IsEmpty());
  // Two saves, each tried with all ranks and alone: rank 0 makes a folder, two files of tensors,
  // the state and the manifest; others write into these two and put a part beside them.
  EXPECT_GT(points.of_rank[0], 4 * 15);
  EXPECT_GT(points.of_rank[1], 4 * 5);
  EXPECT_GT(points.of_rank[2], 4 * 5);
  EXPECT_GT(points.none, 0);
  EXPECT_GT(points.before, 0);
  EXPECT_GT(points.after, 0);
  std::printf("died at %d operations: nothing was there after %d, the one before after %d\n",
              int(points.points),
              int(points.none),
              int(points.before));
}

}  // namespace
}  // namespace lockstep::simulation
