// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/report/timeline.h"
#include "launcher/simulate/step_timeline.h"

namespace lockstep::report {
namespace {

using ::testing::HasSubstr;

Timeline two_lanes() {
  Timeline timeline{.id = "step", .title = "A step"};
  timeline.begin_s = 1;
  timeline.lanes = {{"rank 0", "compute stream", {{"forward", "forward", 1, 1.25}}},
                    {"network", "host 0", {{"12 bytes", "sent", 1.5, 2}}},
                    {"network", "host 1", {}}};
  return timeline;
}

TEST(ReportTimeline, HasSpansInMillisecondsFromItsBegin) {
  const Json block = timeline_block(two_lanes());
  EXPECT_EQ(block["kind"], "timeline");
  EXPECT_EQ(block["kinds"], Json({"sent", "forward"}));
  EXPECT_EQ(block["begin"], 0);
  EXPECT_EQ(block["end"], 1000);
  ASSERT_EQ(block["lanes"].size(), 3u);
  EXPECT_EQ(block["lanes"][1]["group"], "network");
  EXPECT_EQ(block["lanes"][1]["spans"],
            Json::array({{{"name", "12 bytes"}, {"kind", 0}, {"begin", 500}, {"length", 500}}}));
  EXPECT_EQ(block["note"], "");
  const Json& rows = block["table"]["rows"];
  EXPECT_EQ(rows[0], Json({"rank 0, compute stream", "1", "", "250", "0", "250"}));
  EXPECT_EQ(rows[2], Json({"network, host 1", "0", "", "0", "-", "-"}));
}

TEST(ReportTimeline, BeginsWithASpanThatBeganBefore) {
  Timeline timeline = two_lanes();
  timeline.lanes[2].spans.push_back({"1 bytes", "sent", 0.9, 1.1});
  EXPECT_EQ(timeline_block(timeline)["begin"], -100);
}

TEST(ReportTimeline, DrawsTheLongestSpansAndSaysHowManyNot) {
  Timeline timeline = two_lanes();
  for (int i = 0; i < 2100; ++i) {
    const double begin = 1 + i * 1e-3;
    timeline.lanes[2].spans.push_back({fmt::format("{}", i), "sent", begin, begin + i * 1e-7});
  }
  const Json block = timeline_block(timeline);
  const Json& spans = block["lanes"][2]["spans"];
  ASSERT_EQ(spans.size(), kMaxLaneSpans);
  EXPECT_EQ(spans.front()["name"], "100");
  EXPECT_EQ(spans.back()["name"], "2099");
  EXPECT_THAT(block["note"].get<std::string>(), HasSubstr("The 100 shortest spans"));
  EXPECT_EQ(block["table"]["rows"][2][1], "2,100");
  EXPECT_EQ(block["table"]["rows"][2][2], "100");
}

TEST(ReportTimeline, OfNothingIsNoBlock) {
  EXPECT_TRUE(timeline_block({.id = "step", .title = "A step"}).is_null());
}

TEST(StepTimeline, IsEmptyWhereNoStepHasEnded) {
  simulation::SimulationResult result;
  result.spans[0] = {{simulation::Span::Track::compute, 0, 1, "start-up"}};
  EXPECT_TRUE(last_step_of(result).lanes.empty());
}

TEST(StepTimeline, HasTheLastStepAndAtMost64Links) {
  simulation::SimulationResult result;
  result.ends.resize(80);
  result.steps = {{0, 2}, {2, 3}};
  using Track = simulation::Span::Track;
  result.spans[5] = {{Track::compute, 0, 1, "forward"},
                     {Track::compute, 2, 2.5, "backward"},
                     {Track::network, 2.5, 2.75, "all_gather"},
                     {Track::network, 3, 3.5, "hash, after the training"}};
  result.link_uses.assign(80, {{0.5, 1, 7}, {2.25, 2.5, 8}});
  const Timeline timeline = last_step_of(result);
  EXPECT_EQ(timeline.begin_s, 2);
  ASSERT_EQ(timeline.lanes.size(), 3u + 64);
  EXPECT_EQ(timeline.lanes[0].group, "rank 5");
  ASSERT_EQ(timeline.lanes[0].spans.size(), 1u);
  EXPECT_EQ(timeline.lanes[0].spans[0].name, "backward");
  EXPECT_TRUE(timeline.lanes[1].spans.empty());
  EXPECT_EQ(timeline.lanes[2].spans[0].name, "all_gather");
  ASSERT_EQ(timeline.lanes[66].spans.size(), 1u);
  EXPECT_EQ(timeline.lanes[66].spans[0].name, "8 bytes");
  EXPECT_EQ(timeline.description,
            "Predicted: the streams of 1 of 80 ranks, and the links of 64 of 80 hosts");
}

}  // namespace
}  // namespace lockstep::report
