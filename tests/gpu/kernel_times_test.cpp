// SPDX-License-Identifier: Apache-2.0
// The true CUPTI on a true device: what tests/tracing plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tracing/small_training.h"

namespace lockstep {
namespace {

struct Told final : TrainObserver {
  void on_profile_without_device(const std::string& why, const std::string& hint) override {
    without = why + " | " + hint;
  }
  void on_profile(const ProfileRecord& record) override { profile = record; }
  ProfileRecord profile;
  std::string without;
};

TEST(KernelTimes, OfATrainingBelongToItsOperators) {
  Told told;
  testing::train_small({.profile = true}, &told);
  if (!told.without.empty()) GTEST_SKIP() << told.without;
  const ProfileRecord& profile = told.profile;
  ASSERT_TRUE(profile.by_device);
  EXPECT_EQ(profile.lost, 0);
  double busy = 0, other = 0;
  std::vector<std::string> names;
  for (const ProfileLine& line : profile.lines) {
    if (line.name == "idle") continue;
    names.push_back(line.name);
    busy += line.seconds;
    if (line.name == "other") other = line.seconds;
  }
  EXPECT_THAT(
      names,
      ::testing::IsSupersetOf(
          {"conv2d", "conv2d_bwd_weights", "linear", "relu_bwd", "optimizer", "copy_input"}));
  EXPECT_GT(busy, 0);
  EXPECT_LT(other, busy / 2) << "kernels lose the mark they were asked for under";
  EXPECT_THAT(profile.trace, ::testing::HasSubstr("GPU compute"));
}

}  // namespace
}  // namespace lockstep
