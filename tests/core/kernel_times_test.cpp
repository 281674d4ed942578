// SPDX-License-Identifier: Apache-2.0
#include "core/profile/kernel_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/profile/profiler.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using std::chrono::microseconds;
using ::testing::HasSubstr;

/// Steps of 1 to 11 units: two nodes of as many units, a micro-batch of 3, ends of shards of 1.
KernelTimes of_played_steps() {
  Profiler profiler(0, 0);
  const int node = profiler.declare({.name = "relu", .path = "a", .kernel = "relu ()", .cost = {}});
  const int same = profiler.declare({.name = "relu", .path = "b", .kernel = "relu ()", .cost = {}});
  const int data =
      profiler.declare({.name = "data", .path = "", .part = ProfilePart::loading, .cost = {}});
  const int copy =
      profiler.declare({.name = "copy", .path = "", .part = ProfilePart::copying, .cost = {}});
  const int sums = profiler.declare(
      {.name = "sums", .path = "", .part = ProfilePart::sums, .cost = {.bytes = 1e6}});
  profiler.start();
  const auto record = [&](int work, int units) {
    const auto begin = Profiler::Clock::now();
    profiler.record(work, begin, begin + microseconds(100 * units));
  };
  for (int step = 0; step < 12; ++step) {
    profiler.begin_step(step);
    record(node, step + 1);
    record(same, step + 1);
    record(data, 2);
    record(copy, 1);
    for (int end = 0; end < 3; ++end) record(sums, 1);
    profiler.end_step();
  }
  profiler.stop();
  return kernel_times_of(
      profiler, {.fp32_flops = 2e12, .bf16_flops = 3e12, .bytes = 4e11}, false, 1);
}

TEST(KernelTimes, StandForTheMedianStepAndHaveItsSpread) {
  const KernelTimes times = of_played_steps();
  EXPECT_FALSE(times.gpu);
  ASSERT_EQ(times.seconds.size(), 1u) << "both nodes are one kernel";
  // Means over 12 steps, of which 11 were followed by another, whose median is the sixth.
  EXPECT_NEAR(times.seconds.at("relu ()"), 650e-6 * (600.0 / 600), 1e-9);
  EXPECT_NEAR(times.micro_batch_s, 300e-6, 1e-9);
  // Three of four shards end with one sum in all, which takes the time of the three.
  EXPECT_NEAR(times.sum_bytes_per_s, 1e6 / 300e-6, 1e3);
  EXPECT_EQ(times.step_s, 0) << "these steps took no time by the clock";
  ASSERT_EQ(times.step_factors.size(), 21u);
  EXPECT_NEAR(times.step_factors.front(), 1.0 / 6, 1e-6);
  EXPECT_NEAR(times.factor_at(0.5), 1, 1e-6);
  EXPECT_NEAR(times.step_factors.back(), 11.0 / 6, 1e-6);
}

TEST(KernelTimes, AFileHoldsThem) {
  const KernelTimes times = of_played_steps();
  const KernelTimes read = parse_kernel_times(to_json(times), "times.json");
  EXPECT_EQ(read.gpu, times.gpu);
  EXPECT_EQ(read.peaks.bytes, times.peaks.bytes);
  EXPECT_EQ(read.step_factors, times.step_factors);
  EXPECT_NEAR(read.seconds.at("relu ()"), times.seconds.at("relu ()"), 1e-12);
  EXPECT_NEAR(read.micro_batch_s, times.micro_batch_s, 1e-12);
}

TEST(KernelTimes, WhatIsNoSuchFileIsRefusedByName) {
  const std::string good = to_json(of_played_steps());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"no JSON", "not a JSON object"},
      {with("\"format\": 1", "\"format\": 9"), "'format' must be 1, got 9"},
      {with("\"cpu\"", "\"tpu\""), "\"tpu\""},
      {with("\"launch_us\"", "\"lunch_us\""), "'launch_us' must be a number"},
      {with("\"fp32_flops\": 2000000000000.0", "\"fp32_flops\": 0"), "or more"},
      {with("\"ranks\": 1", "\"ranks\": 2"), "one rank"},
      {with("\"launch_us\": 0.0", "\"launch_us\": 1e300"), "'launch_us' must be a number"},
      {"{\"format\": " + std::string(1'000'000, '['), "not a JSON object"},
      {"{\"format\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}",
       "not a JSON object"},
      {with("\"step_factors\": [", "\"step_factors\": [7, "), "ascending"}};
  for (const auto& [text, words] : cases) {
    try {
      parse_kernel_times(text, "times.json");
      ADD_FAILURE() << words;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("times.json"));
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

}  // namespace
}  // namespace lockstep
