// SPDX-License-Identifier: Apache-2.0
#include "core/base/fault_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/exec/position.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::string complaint(const std::string& text) {
  try {
    parse_fault_plan(text);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

TEST(FaultPlan, ReadsSeveralFaults) {
  const auto plan = parse_fault_plan(
      "rank=1,step=5,phase=exchange,do=kill;rank=*,times=9,do=sleep:0.25;rank=0,do=nan:2.act");
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].kind, FaultKind::kill);
  EXPECT_EQ(plan[0].rank, 1);
  EXPECT_EQ(plan[0].step, 5);
  EXPECT_EQ(plan[0].phase, "exchange");
  EXPECT_EQ(plan[0].times, 1);
  EXPECT_EQ(plan[1].rank, -1);
  EXPECT_EQ(plan[1].step, -1);
  EXPECT_EQ(plan[1].times, 9);
  EXPECT_EQ(plan[1].number, 0.25);
  EXPECT_EQ(plan[2].layer, "2.act");
  EXPECT_EQ(plan[2].text, "rank=0,do=nan:2.act");
}

TEST(FaultPlan, KnowsEveryFault) {
  for (const char* kind : {"kill",
                           "stop",
                           "exit",
                           "throw",
                           "sleep:1",
                           "hang",
                           "memory",
                           "nan:x",
                           "flip-weight",
                           "flip-gradient",
                           "scale-batch:1e6",
                           "skip-bucket",
                           "halve-count",
                           "never-join"})
    EXPECT_EQ(parse_fault_plan(std::string("rank=0,do=") + kind).size(), 1u) << kind;
}

TEST(FaultPlan, KnowsTheNamesOfPosition) {
  for (const RunStage stage :
       {RunStage::start, RunStage::training, RunStage::evaluation, RunStage::saving, RunStage::end})
    EXPECT_EQ(complaint(fmt::format("rank=0,stage={},do=kill", name_of(stage))), "accepted");
  for (const Phase phase :
       {Phase::loading, Phase::forward, Phase::backward, Phase::exchange, Phase::optimizer})
    EXPECT_EQ(complaint(fmt::format("rank=0,phase={},do=kill", name_of(phase))), "accepted");
}

TEST(FaultPlan, NamesWhatIsWrong) {
  EXPECT_THAT(complaint("rank=0,do=kil"), HasSubstr("did you mean kill?"));
  EXPECT_THAT(complaint("rank=0,do=kill;rank=1,pase=x,do=exit"), HasSubstr("did you mean phase?"));
  EXPECT_THAT(complaint("rank=0,phase=exchagne,do=kill"), HasSubstr("did you mean exchange?"));
  EXPECT_THAT(complaint("rank=0,stage=eval,do=kill"), HasSubstr("did you mean evaluation?"));
  EXPECT_THAT(complaint("rank=-1,do=kill"), HasSubstr("'-1'"));
  EXPECT_THAT(complaint("rank=0,step=5x,do=kill"), HasSubstr("'5x'"));
  EXPECT_THAT(complaint("rank=0,times=0,do=kill"), HasSubstr("'0'"));
  EXPECT_THAT(complaint("rank=0,do=sleep"), HasSubstr("needs a value"));
  EXPECT_THAT(complaint("rank=0,do=sleep:-1"), HasSubstr("negative"));
  EXPECT_THAT(complaint("rank=0,do=scale-batch:inf"), HasSubstr("'inf'"));
  EXPECT_THAT(complaint("rank=0,do=kill:9"), HasSubstr("takes no value"));
  EXPECT_THAT(complaint("rank=0,do=nan:"), HasSubstr("no name"));
  EXPECT_THAT(complaint("rank=0,rank=1,do=kill"), HasSubstr("rank is given twice"));
  EXPECT_THAT(complaint("do=kill"), HasSubstr("rank is missing"));
  EXPECT_THAT(complaint("rank=0"), HasSubstr("do is missing"));
  EXPECT_THAT(complaint("rank"), HasSubstr("rank has no value"));
  EXPECT_THAT(complaint("rank=0,do=kill;;rank=1,do=kill"), HasSubstr("''"));
  EXPECT_THAT(complaint("rank=0,phase=exchange,do=skip-bucket"), HasSubstr("omit them"));
  EXPECT_THAT(complaint("rank=0,step=1,do=never-join"), HasSubstr("never-join"));
}

}  // namespace
}  // namespace lockstep
