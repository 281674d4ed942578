// SPDX-License-Identifier: Apache-2.0
#include "core/step/fault_injector.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

/// Steps 1 to 8, each with a forward and an exchange; returns where something was thrown.
std::string place_of_throw(const std::string& plan, int rank) {
  Position position;
  std::vector<std::string> told;
  FaultInjector injector(parse_fault_plan(plan), rank, position, [&](const std::string& what) {
    told.push_back(what);
  });
  try {
    position.enter(RunStage::training);
    for (int step = 1; step <= 8; ++step) {
      position.set_step(step);
      position.enter(Phase::forward);
      position.enter(Phase::exchange);
    }
    position.enter(RunStage::evaluation);
  } catch (const Error&) {
    EXPECT_EQ(told.size(), 1u);
    const PositionNote note = position.read();
    return fmt::format("{} {} {}", name_of(note.stage), name_of(note.phase), note.step);
  }
  EXPECT_TRUE(told.empty());
  return "nowhere";
}

TEST(FaultInjector, PlaysAtItsPlace) {
  EXPECT_EQ(place_of_throw("rank=1,step=5,phase=exchange,do=throw", 1), "training exchange 5");
  EXPECT_EQ(place_of_throw("rank=*,step=3,do=throw", 2), "training forward 3");
  EXPECT_EQ(place_of_throw("rank=0,stage=evaluation,do=throw", 0), "evaluation  8");
  EXPECT_EQ(place_of_throw("rank=0,do=throw", 0), "training  0");
  EXPECT_EQ(place_of_throw("rank=1,do=throw", 0), "nowhere");
  EXPECT_EQ(place_of_throw("rank=0,step=9,do=throw", 0), "nowhere");
}

TEST(FaultInjector, HandsOutWhatItsHooksAskForOnce) {
  Position position;
  FaultInjector injector(
      parse_fault_plan("rank=0,step=2,do=skip-bucket;rank=0,step=2,do=nan:a;rank=1,do=flip-weight"),
      0,
      position,
      {});
  EXPECT_EQ(take_fault(FaultKind::skip_bucket), nullptr);
  position.set_step(2);
  EXPECT_NE(take_fault(FaultKind::skip_bucket), nullptr);
  EXPECT_EQ(take_fault(FaultKind::skip_bucket), nullptr) << "played twice";
  EXPECT_EQ(take_fault(FaultKind::flip_weight), nullptr) << "of another rank";
  EXPECT_NE(injector.take(FaultKind::nan, 2), nullptr);
  EXPECT_NE(injector.take(FaultKind::nan, 2), nullptr) << "a replay does not meet it";
  EXPECT_EQ(injector.take(FaultKind::nan, 3), nullptr);
}

TEST(FaultInjector, ThereIsNoneWithoutAPlan) {
  EXPECT_EQ(fault_injector(), nullptr);
  EXPECT_EQ(take_fault(FaultKind::skip_bucket), nullptr);
}

}  // namespace
}  // namespace lockstep
