// SPDX-License-Identifier: Apache-2.0
#include "core/exec/position.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace lockstep {
namespace {

/// Writes nested ranges as "step 1(data() forward())".
class WrittenRanges final : public RangeMarker {
 public:
  int declare(const std::string& name) override {
    names_.push_back(name);
    return int(names_.size()) - 1;
  }
  void push(int name) override { text += names_[std::size_t(name)] + "("; }
  void push(int name, std::int64_t number) override {
    text += names_[std::size_t(name)] + " " + std::to_string(number) + "(";
  }
  void pop() override { text += ")"; }
  std::uint64_t start(int) override { return 0; }
  void end(std::uint64_t) override {}

  std::string text;

 private:
  std::vector<std::string> names_;
};

TEST(StageRanges, StepsHoldPhasesAndStandBesideEvaluationAndCheckpoints) {
  WrittenRanges ranges;
  Position position;
  position.enter(RunStage::start);
  position.mark(&ranges);
  position.set_step(1);
  position.enter(Phase::loading);
  position.enter(Phase::forward);
  position.enter(Phase::backward);
  position.set_step(2);  // no stage between them
  position.enter(Phase::exchange);
  position.enter(Phase::optimizer);
  position.enter(RunStage::training);
  position.enter(RunStage::evaluation);
  position.enter(Phase::forward);
  position.enter(RunStage::saving);
  position.enter(RunStage::end);
  EXPECT_EQ(ranges.text,
            "step 1(data()forward()backward())step 2(exchange()optimizer())evaluation(forward())"
            "checkpoint()");
  position.mark(nullptr);
  position.set_step(3);
  EXPECT_TRUE(ranges.text.ends_with("checkpoint()"));
}

}  // namespace
}  // namespace lockstep
