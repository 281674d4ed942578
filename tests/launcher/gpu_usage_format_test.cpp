// SPDX-License-Identifier: Apache-2.0
#include "launcher/advice/gpu_usage_format.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Q = GpuQuantity;

constexpr double kGib = 1024. * 1024 * 1024;

GpuSample sample(double busy, double bus, double gib, double watts, double mhz) {
  GpuSample sample;
  sample.values[Q::busy] = busy;
  sample.values[Q::bus_busy] = bus;
  sample.values[Q::memory_bytes] = gib * kGib;
  sample.values[Q::power_w] = watts;
  sample.values[Q::clock_mhz] = mhz;
  sample.reasons = 0;
  return sample;
}

GpuUse used(const std::string& host, std::initializer_list<GpuSample> samples) {
  GpuUse use;
  std::ranges::copy(host, use.host);
  use.limits[Q::memory_bytes] = 79.5 * kGib;
  use.limits[Q::power_w] = 700;
  use.limits[Q::clock_mhz] = 1980;
  for (const GpuSample& one : samples) use.add(one);
  return use;
}

void say(GpuUse& use, const std::string& why) { std::ranges::copy(why, use.not_watched); }

TEST(GpuPhases, AreSharesOfTheMeasuredTime) {
  EXPECT_EQ(format_gpu_phases({{1, 2, 0.5, 0.25, 0.25}}, 12),
            "gpu phases             forward 25%, backward 50%, exchange 12%, optimizer 6%, idle 6% "
            "(of rank 0's, by its own clock; logged steps: 12)");
}

TEST(GpuUse, MeanLeastAndMost) {
  GpuRange range;
  for (const double value : {3., std::nan(""), 1., 8.}) range.add(value);
  EXPECT_EQ(range.samples, 3);
  EXPECT_EQ(range.mean(), 4);
  EXPECT_EQ(range.least, 1);
  EXPECT_EQ(range.most, 8);
  GpuRange negative;
  negative.add(-2);
  EXPECT_EQ(negative.most, -2) << "the 0 it began with";
}

TEST(GpuUse, CountsReasonsOverTheSamplesThatSayThem) {
  GpuSample none, heat, both;
  heat.reasons = 1u << unsigned(ClockReason::heat);
  both.reasons = *heat.reasons | 1u << unsigned(ClockReason::power_limit);
  GpuUse use;
  for (const GpuSample& one : {none, heat, both}) use.add(one);
  EXPECT_EQ(use.samples, 3);
  EXPECT_EQ(use.reason_samples, 2);
  EXPECT_EQ(use.throttled[std::size_t(ClockReason::heat)], 2);
  EXPECT_EQ(use.throttled[std::size_t(ClockReason::power_limit)], 1);
  EXPECT_EQ(use.throttled[std::size_t(ClockReason::idle)], 0);
}

TEST(GpuWords, TimeSpaceAndBandwidthAreThreeThings) {
  GpuSample first = sample(0.96, 0.40, 50, 600, 1700),
            second = sample(0.98, 0.42, 61.25, 624, 1690);
  first.reasons = 1u << unsigned(ClockReason::power_limit);
  first.values[Q::temperature_c] = 64;
  const GpuUse use = used("node7", {first, second});
  EXPECT_THAT(
      format_gpu_usage({&use, 1}),
      ElementsAre(
          "gpu time               busy 97% of the time (some kernel ran; says nothing of how much "
          "of the chip it used)",
          "gpu space              61.25 GiB of 79.50 GiB held at most (whoever holds it; says "
          "nothing of how often it is used)",
          "gpu bandwidth          memory controller busy 41% of the time (something was read or "
          "written; "
          "says nothing of how many bytes)",
          "gpu power              on average 612 W of 700 W; clocks 1,695 MHz of 1,980 MHz, "
          "throttled "
          "by its "
          "power limit 50% of the time; 64 degrees Celsius at most"));
}

TEST(GpuWords, WhatIsNotSaidIsLeftOut) {
  EXPECT_THAT(format_gpu_usage({}), IsEmpty());
  GpuSample clocks;
  clocks.values[Q::clock_mhz] = 1410;
  GpuUse use;
  use.add(clocks);
  EXPECT_THAT(format_gpu_usage({&use, 1}),
              ElementsAre("gpu clocks             on average 1,410 MHz"));
  clocks.reasons = 1u << unsigned(ClockReason::idle);
  use = {};
  use.add(clocks);
  EXPECT_THAT(format_gpu_usage({&use, 1}),
              ElementsAre("gpu clocks             on average 1,410 MHz, never throttled"));
}

TEST(GpuWords, TheOddRankIsNamed) {
  GpuSample hot = sample(0.62, 0.41, 61.25, 700, 1400);
  hot.reasons = 1u << unsigned(ClockReason::heat);
  const GpuSample well = sample(0.98, 0.41, 60.25, 600, 1980);
  const GpuUse ranks[] = {
      used("a", {well}), used("a", {well}), used("b", {hot}), used("b", {well})};
  EXPECT_THAT(
      format_gpu_usage(ranks),
      ElementsAre(
          "gpu time               busy 89% of the time, ranks 62% to 98%, rank 2 (b) farthest from "
          "the others with 62% (some kernel ran; says nothing of how much of the chip it used)",
          "gpu space              61.25 GiB of 79.50 GiB held at most, ranks 60.25 GiB to 61.25 "
          "GiB, rank 2 (b) farthest from the others with 61.25 GiB (whoever holds it; says nothing "
          "of how often it is used)",
          "gpu bandwidth          memory controller busy 41% of the time on every rank (something "
          "was "
          "read "
          "or written; says nothing of how many bytes)",
          "gpu power              on average 625 W of 700 W, ranks 600 W to 700 W, rank 2 (b) "
          "farthest from "
          "the others with 700 W; clocks 1,835 MHz of 1,980 MHz, ranks 1,400 MHz to 1,980 MHz, "
          "rank 2 (b) farthest from the others with 1,400 MHz, throttled by heat 100% of the time "
          "on rank 2 (b), the most"));
}

TEST(GpuWords, RanksAlikeAreNotNamed) {
  GpuSample hot;
  hot.values[Q::clock_mhz] = 1980;
  hot.values[Q::temperature_c] = 85;
  hot.reasons = 1u << unsigned(ClockReason::heat);
  const GpuUse ranks[] = {used("a", {hot}), used("b", {hot})};
  EXPECT_THAT(format_gpu_usage(ranks),
              ElementsAre("gpu clocks             on average 1,980 MHz of 1,980 MHz on every rank, "
                          "throttled by heat 100% of the time on every rank; 85 degrees Celsius at "
                          "most on every rank"));
}

TEST(GpuWords, WhatCouldNotBeWatchedIsSaid) {
  GpuUse use = used("a", {});
  EXPECT_THAT(format_gpu_usage({&use, 1}),
              ElementsAre("gpu                    not watched: training was too short"));
  use.went_silent = true;
  EXPECT_THAT(format_gpu_usage({&use, 1}),
              ElementsAre("gpu                    not watched: the driver does not answer"));
  say(use, "no such library");
  EXPECT_THAT(format_gpu_usage({&use, 1}),
              ElementsAre("gpu                    not watched: no such library"));
  const GpuUse alike[] = {use, use};
  EXPECT_THAT(format_gpu_usage(alike),
              ElementsAre("gpu                    not watched: no such library"));
  GpuUse silent = used("b", {GpuSample()});
  silent.went_silent = true;
  EXPECT_THAT(
      format_gpu_usage({&silent, 1}),
      ElementsAre("gpu                    watched until the driver stopped answering, after "
                  "1 samples"));
  GpuUse empty = used("b", {GpuSample()});
  EXPECT_THAT(
      format_gpu_usage({&empty, 1}),
      ElementsAre("gpu                    not watched: the driver answers no question about "
                  "it"));
  GpuSample something;
  something.values[Q::memory_clock_mhz] = 2619;  // said in numbers alone
  const GpuUse some[] = {used("a", {something}), use, use};
  EXPECT_THAT(
      format_gpu_usage(some),
      ElementsAre("gpu                    rank 1 (a) not watched: no such library; 1 more of "
                  "3 ranks like it"));
}

TEST(GpuWords, RanksWithOtherTroublesAreToldApart) {
  std::vector<GpuUse> ranks(5, used("a", {}));
  say(ranks[0], "no such library");
  say(ranks[2], "no such library");
  say(ranks[3], "no such GPU");
  EXPECT_THAT(
      format_gpu_usage(ranks),
      ElementsAre(
          "gpu                    rank 0 (a) not watched: no such library; 1 more of 5 "
          "ranks like it",
          "gpu                    rank 1 (a) not watched: training was too short; 1 more of "
          "5 ranks like it",
          "gpu                    rank 3 (a) not watched: no such GPU"));
  say(ranks[4], "not this either");
  EXPECT_THAT(format_gpu_usage(ranks).back(),
              "gpu                    not watched, or not to the end, for other reasons: 1 more of "
              "5 ranks; summary.json has them");
}

// 1 of 300 samples is not a share that shows.
TEST(GpuWords, NeverIsNotSaidOfSeldom) {
  GpuSample clocks;
  clocks.values[Q::clock_mhz] = 1410;
  clocks.reasons = 0;
  GpuUse use;
  for (int i = 0; i < 299; ++i) use.add(clocks);
  EXPECT_THAT(format_gpu_usage({&use, 1}),
              ElementsAre("gpu clocks             on average 1,410 MHz, never throttled"));
  clocks.reasons = 1u << unsigned(ClockReason::heat);
  use.add(clocks);
  EXPECT_THAT(format_gpu_usage({&use, 1}),
              ElementsAre("gpu clocks             on average 1,410 MHz"));
}

TEST(GpuWords, AMemoryClockBelowTheHighestIsSaid) {
  GpuSample slow;
  slow.values[Q::power_w] = 100;
  slow.values[Q::memory_clock_mhz] = 1593;
  GpuUse use = used("a", {slow});
  use.limits[Q::memory_clock_mhz] = 2619;
  EXPECT_THAT(
      format_gpu_usage({&use, 1}),
      ElementsAre("gpu power              on average 100 W of 700 W; memory clock 1,593 MHz "
                  "of 2,619 MHz"));
}

TEST(GpuWords, APartSaysWhatItLacks) {
  GpuUse use = used("a", {});
  GpuSample power;
  power.values[Q::power_w] = 300;
  use.add(power);
  use.part = true;
  EXPECT_THAT(
      format_gpu_usage({&use, 1}),
      ElementsAre("gpu power              on average 300 W of 700 W",
                  "gpu                    a MIG part: the driver does not say how busy it or its "
                  "memory controller is, nor what it holds; power and clocks are the whole GPU's"));
}

TEST(GpuWords, Json) {
  EXPECT_EQ(gpus_json({}), "");
  GpuSample one = sample(0.5, 0.25, 2, 300, 1500);
  one.reasons = 1u << unsigned(ClockReason::power_limit);
  GpuUse ranks[] = {used("a", {one, sample(1, 0.25, 1, 500, 1700)}), used("b\xff", {})};
  say(ranks[1], "no \"library\"");
  const auto json = nlohmann::json::parse(gpus_json(ranks));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["rank"], 0);
  EXPECT_EQ(json[0]["host"], "a");
  EXPECT_EQ(json[0]["samples"], 2);
  EXPECT_TRUE(json[0]["trouble"].is_null());
  EXPECT_EQ(json[0]["busy"], (nlohmann::json{{"mean", 0.75}, {"least", 0.5}, {"most", 1.0}}));
  EXPECT_EQ(json[0]["memory_bytes"]["most"], 2 * kGib);
  EXPECT_EQ(json[0]["memory_total_bytes"], 79.5 * kGib);
  for (const char* of : {"mean", "least", "most"})
    EXPECT_TRUE(json[0]["memory_bytes"][of].is_number_integer()) << of;
  EXPECT_TRUE(json[0]["memory_total_bytes"].is_number_integer());
  EXPECT_EQ(json[0]["power_limit_w"], 700);
  EXPECT_EQ(json[0]["held_back"]["power_limit"], 0.5);
  EXPECT_TRUE(json[0]["temperature_c"].is_null()) << "not said is no 0";
  EXPECT_EQ(json[1]["trouble"], "not watched: no \"library\"");
  EXPECT_TRUE(json[1]["busy"].is_null());
  EXPECT_TRUE(json[1]["held_back"].is_null());
}

}  // namespace
}  // namespace lockstep
