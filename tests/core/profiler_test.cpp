// SPDX-License-Identifier: Apache-2.0
#include "core/profile/profiler.h"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

/// Plays one activity of 10 us for each mark that is popped, where the sink is told at once.
class PlayedTracer final : public DeviceTracer {
 public:
  explicit PlayedTracer(std::vector<std::string>& calls, bool refuses = false)
      : calls_(calls), refuses_(refuses) {}
  void start(DeviceActivitySink& sink) override {
    if (refuses_) throw EnvironmentError("refused", "ask again");
    calls_.push_back("start");
    sink_ = &sink;
  }
  void push(std::uint64_t mark) override { marks_.push_back(mark); }
  void pop() override {
    const auto begin = Profiler::Clock::now();
    sink_->take({.mark = marks_.back(),
                 .name = "kernel",
                 .stream = 7,
                 .begin = begin,
                 .end = begin + microseconds(10)});
    marks_.pop_back();
  }
  void stop() override {
    calls_.push_back("stop with " + std::to_string(marks_.size()) + " marks");
  }

 private:
  std::vector<std::string>& calls_;
  bool refuses_;
  DeviceActivitySink* sink_ = nullptr;
  std::vector<std::uint64_t> marks_;
};

TEST(Profiler, GivesTheDevicesTimesToTheWorkTheyWereAskedForUnder) {
  std::vector<std::string> calls;
  Profiler profiler(1, 1);  // of step 1 alone events are kept
  const auto before = Profiler::Clock::now();
  const int conv = profiler.declare({.name = "conv2d", .path = "conv1", .cost = {}});
  const int relu = profiler.declare({.name = "relu", .path = "relu1", .cost = {}});
  profiler.start();
  EXPECT_FALSE(profiler.traces_device());
  profiler.trace_device(std::make_unique<PlayedTracer>(calls));
  EXPECT_TRUE(profiler.traces_device());
  std::this_thread::sleep_for(milliseconds(2));  // another rank's tracer starts
  profiler.begin();
  for (int step = 0; step < 3; ++step) {
    profiler.begin_step(step);
    { const ProfileScope scope(&profiler, conv); }
    { const ProfileScope scope(&profiler, conv); }
    { const DeviceScope scope(&profiler, relu); }
  }
  profiler.stop();
  EXPECT_FALSE(profiler.traces_device());
  const double took = std::chrono::duration<double>(Profiler::Clock::now() - before).count();
  EXPECT_GT(profiler.seconds(), 0);
  EXPECT_LT(profiler.seconds(), took - 2e-3);

  EXPECT_THAT(calls, ElementsAre("start", "stop with 0 marks"));
  const DeviceActivities& device = *profiler.device();
  EXPECT_EQ(device.total(conv).activities, 6);
  EXPECT_NEAR(device.total(conv).seconds, 60e-6, 1e-9);
  EXPECT_EQ(device.total(relu).activities, 3);
  EXPECT_EQ(device.other().activities, 4) << "before all steps and of each, outside of all scopes";
  EXPECT_EQ(profiler.totals()[std::size_t(conv)].runs, 6) << "on the host as well";
  EXPECT_EQ(profiler.totals()[std::size_t(relu)].runs, 0);

  std::vector<int> works;
  for (const DeviceActivities::Event& event : device.events()) {
    EXPECT_EQ(event.step, 1);
    EXPECT_EQ(event.stream, 7u);
    EXPECT_GE(event.begin, 0);
    EXPECT_LE(event.begin, took);
    works.push_back(event.work);
  }
  EXPECT_THAT(works, ElementsAre(conv, conv, relu, DeviceActivities::kNoWork));
  EXPECT_THAT(device.names(), ElementsAre("kernel"));
}

TEST(Profiler, WhatComesBehindAStepIsKeptWithItsWindowAndHasNoStep) {
  std::vector<std::string> calls;
  Profiler profiler(1, 1);
  const int conv = profiler.declare({.name = "conv2d", .path = "conv1", .cost = {}});
  profiler.start();
  profiler.trace_device(std::make_unique<PlayedTracer>(calls));
  { const ProfileScope before_all(&profiler, conv); }
  for (int step = 0; step < 3; ++step) {
    profiler.begin_step(step);
    { const ProfileScope scope(&profiler, conv); }
    profiler.end_step();
    { const ProfileScope evaluation(&profiler, conv); }
  }
  profiler.stop();
  using Found = std::pair<int, std::int64_t>;
  std::vector<Found> found;  // work and step
  for (const DeviceActivities::Event& event : profiler.device()->events())
    found.emplace_back(event.work, event.step);
  const int none = DeviceActivities::kNoWork;
  EXPECT_THAT(found, ElementsAre(Found(conv, 1), Found(none, 1), Found(conv, -1), Found(none, -1)));
  EXPECT_EQ(profiler.device()->total(conv).activities, 7);
}

TEST(Profiler, WhatFollowsDirectlyBeginsWhereTheRecordBeforeEnded) {
  Profiler profiler(0, 1);
  const int first = profiler.declare({.name = "first", .path = "", .cost = {}});
  const int second = profiler.declare({.name = "second", .path = "", .cost = {}});
  profiler.start();
  profiler.begin_step(0);
  { const ProfileScope scope(&profiler, first); }
  { const ProfileScope scope(&profiler, second, ProfileScope::Begin::at_last_end); }
  { const ProfileScope scope(&profiler, first); }
  const auto& events = profiler.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].begin, events[0].end);
  EXPECT_GE(events[1].end, events[1].begin);
  EXPECT_GE(events[2].begin, events[1].end);
  EXPECT_EQ(profiler.totals()[std::size_t(first)].runs, 2);
}

TEST(Profiler, GoesOnWithoutADeviceThatRefuses) {
  std::vector<std::string> calls;
  Profiler profiler(0, 1);
  const int conv = profiler.declare({.name = "conv2d", .path = "conv1", .cost = {}});
  profiler.start();
  EXPECT_THROW(profiler.trace_device(std::make_unique<PlayedTracer>(calls, true)),
               EnvironmentError);
  profiler.begin_step(0);
  { const ProfileScope scope(&profiler, conv); }
  profiler.stop();
  EXPECT_EQ(profiler.device(), nullptr);
  EXPECT_EQ(profiler.totals()[std::size_t(conv)].runs, 1);
}

TEST(DeviceActivities, AMarkHoldsEveryStepItMay) {
  const auto zero = DeviceActivities::Clock::now();
  DeviceActivities device(3, zero);
  for (const std::int64_t step : {std::int64_t{-1}, std::int64_t{0}, DeviceActivities::kMaxStep})
    device.take({.mark = DeviceActivities::mark(step, 2, true),
                 .name = "kernel",
                 .begin = zero,
                 .end = zero + microseconds(1)});
  ASSERT_EQ(device.events().size(), 3u);
  EXPECT_EQ(device.events()[0].step, -1);
  EXPECT_EQ(device.events()[1].step, 0);
  EXPECT_EQ(device.events()[2].step, DeviceActivities::kMaxStep);
  EXPECT_EQ(device.total(2).activities, 3);
  device.take({.mark = DeviceActivities::mark(DeviceActivities::kMaxStep, 2, false),
               .name = "kernel",
               .begin = zero,
               .end = zero + microseconds(1)});
  EXPECT_EQ(device.events().size(), 3u) << "it was not to be kept";
}

TEST(DeviceActivities, KeepsABoundedNumberOfEventsAndEveryTotal) {
  const auto zero = DeviceActivities::Clock::now();
  DeviceActivities device(1, zero);
  DeviceActivity activity{.mark = DeviceActivities::mark(0, 0, true),
                          .name = "kernel",
                          .begin = zero,
                          .end = zero + microseconds(1)};
  const auto most = std::int64_t(DeviceActivities::kMaxEvents);
  for (std::int64_t i = 0; i < most + 5; ++i) device.take(activity);
  device.lose(3);
  EXPECT_EQ(device.events().size(), DeviceActivities::kMaxEvents);
  EXPECT_EQ(device.dropped(), 5);
  EXPECT_EQ(device.lost(), 3);
  activity.mark = DeviceActivities::mark(0, 0, false);
  device.take(activity);
  EXPECT_EQ(device.dropped(), 5) << "it was not to be kept";
  EXPECT_EQ(device.total(0).activities, most + 6);
}

}  // namespace
}  // namespace lockstep
