// SPDX-License-Identifier: Apache-2.0
// Training with activations computed again: the same bits, less memory, and the limit is kept.
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::SmallRun;

TrainSummary train(SmallRun run, Recompute recompute, std::uint64_t limit = 0) {
  run.options.recompute = recompute;
  run.options.memory_limit = limit;
  return testing::train(run, testing::mpi_world());
}

SmallRun resnet() { return testing::small_resnet(); }
SmallRun gpt() { return testing::small_gpt(); }
SmallRun llama() { return testing::small_llama(); }

class RecomputedTraining : public ::testing::TestWithParam<SmallRun (*)()> {};

TEST_P(RecomputedTraining, GivesTheSameBitsWithLessMemory) {
  const TrainSummary none = train(GetParam()(), Recompute::none);
  const TrainSummary all = train(GetParam()(), Recompute::all);
  EXPECT_EQ(all.weights_sha256, none.weights_sha256);
  EXPECT_LT(all.activation_bytes, none.activation_bytes);
}

TEST_P(RecomputedTraining, AutoKeepsWhatFits) {
  const TrainSummary none = train(GetParam()(), Recompute::none);
  const TrainSummary ample = train(GetParam()(), Recompute::automatic, std::uint64_t{1} << 34);
  EXPECT_EQ(ample.activation_bytes, none.activation_bytes);
  std::uint64_t limit = none.planned_bytes - 1;  // of rank 0, which has the most
  testing::mpi_world().broadcast(&limit, sizeof limit, 0);
  const TrainSummary tight = train(GetParam()(), Recompute::automatic, limit);
  EXPECT_LT(tight.planned_bytes, none.planned_bytes);
  EXPECT_EQ(tight.weights_sha256, none.weights_sha256);
}

TEST_P(RecomputedTraining, WhatCannotFitIsRefusedBeforeTheFirstStep) {
  EXPECT_THROW(train(GetParam()(), Recompute::none, 1000), OutOfMemory);
  EXPECT_THROW(train(GetParam()(), Recompute::automatic, 1000), OutOfMemory);
}

INSTANTIATE_TEST_SUITE_P(Models, RecomputedTraining, ::testing::Values(&resnet, &gpt, &llama));

}  // namespace
}  // namespace lockstep
