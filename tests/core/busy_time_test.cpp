// SPDX-License-Identifier: Apache-2.0
#include "core/profile/busy_time.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "core/profile/device_activities.h"

namespace lockstep {
namespace {

using Clock = BusyTime::Clock;
using std::chrono::nanoseconds;

struct Span {
  std::int64_t begin, end;
};

Clock::time_point at(std::int64_t time) { return Clock::time_point(nanoseconds(time)); }

std::int64_t busy(const std::vector<Span>& spans) {
  BusyTime time;
  for (const Span& span : spans) time.add(at(span.begin), at(span.end));
  return nanoseconds(time.length()).count();
}

TEST(BusyTime, IsTheLengthOfTheUnionInWhateverOrder) {
  std::vector<Span> spans{{100, 200},  // alone
                          {300, 400},  // overlapped from behind
                          {350, 450},
                          {500, 900},  // has others within
                          {600, 700},
                          {500, 900},
                          {899, 900},
                          {900, 950},   // touches
                          {960, 960}};  // empty
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(busy(spans), 100 + 150 + 450);
    std::ranges::shuffle(spans, random);
  }
  EXPECT_EQ(busy({}), 0);
}

TEST(BusyTime, OfManyIntervalsIsThatOfEveryMoment) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<bool> covered(400);
    std::vector<Span> spans;
    for (int i = 0; i < 40; ++i) {
      const auto begin = std::int64_t(random() % 360);
      const auto end = begin + std::int64_t(random() % 40);
      spans.push_back({begin, end});
      for (std::int64_t t = begin; t < end; ++t) covered[std::size_t(t)] = true;
    }
    EXPECT_EQ(busy(spans), std::ranges::count(covered, true));
  }
}

constexpr auto kMax = std::int64_t(BusyTime::kMaxApart);

TEST(BusyTime, StaysExactBeyondItsMemoryWhereIntervalsComeNearlyInOrder) {
  // Blocks of a quarter of the memory, each two swapped.
  std::vector<Span> spans;
  constexpr std::int64_t kBlock = kMax / 4;
  for (const std::int64_t block : {1, 0, 3, 2, 5, 4, 7, 6, 9, 8})
    for (std::int64_t i = block * kBlock; i < (block + 1) * kBlock; ++i)
      spans.push_back({10 * i, 10 * i + 4});
  EXPECT_EQ(busy(spans), 4 * 10 * kBlock);
}

TEST(BusyTime, BeyondItsMemoryIsNeverTooHigh) {
  std::vector<Span> spans;
  for (std::int64_t i = 1; i <= 2 * kMax; ++i) spans.push_back({10 * i, 10 * i + 4});
  const std::int64_t known = busy(spans);
  EXPECT_EQ(known, 2 * kMax * 4);
  spans.push_back({0, 5});    // far behind: forgotten
  spans.push_back({10, 14});  // a second time
  EXPECT_EQ(busy(spans), known);
  const std::int64_t end = 10 * 2 * kMax + 4;
  spans.push_back({0, end});  // what lies within the later half fills its gaps
  EXPECT_GT(busy(spans), known + kMax / 2 * 6 - 10);
  EXPECT_LE(busy(spans), end);
}

TEST(DeviceActivities, AreBusyOnceWhereStreamsOverlap) {
  const auto zero = Clock::now();
  DeviceActivities device(2, zero);
  const auto run = [&](int work, std::uint32_t stream, int begin, int end) {
    device.take({.mark = DeviceActivities::mark(5, work, false),
                 .name = "kernel",
                 .stream = stream,
                 .begin = zero + nanoseconds(begin),
                 .end = zero + nanoseconds(end)});
  };
  run(1, 8, 6000, 9000);  // an exchange concurrently with two kernels, told of before them
  run(0, 7, 5000, 7000);
  run(0, 7, 7000, 8000);
  run(0, 7, 1000, 2000);
  run(DeviceActivities::kNoWork, 8, 1500, 1600);  // within
  EXPECT_NEAR(device.busy_seconds(), 5e-6, 1e-15);
  EXPECT_NEAR(device.total(0).seconds, 4e-6, 1e-15) << "of one operator they add up";
  EXPECT_NEAR(device.total(1).seconds, 3e-6, 1e-15);
}

}  // namespace
}  // namespace lockstep
