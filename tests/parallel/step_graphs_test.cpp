// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_graphs.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "core/exec/backend.h"
#include "lockstep/error.h"
#include "tests/support/test_backend.h"

namespace lockstep {
namespace {

/// A segment whose parts are functions.
class TestSegment final : public StepSegment {
 public:
  void add(std::function<void()> work, bool on_host = false) {
    plan_.push_back({.first = int(works_.size()), .on_host = on_host});
    works_.push_back(std::move(work));
  }
  const StepPlan& plan() override { return plan_; }
  void run(const StepPart& part, bool eagerly) override {
    ++runs;
    ran_eagerly = eagerly;
    works_[std::size_t(part.first)]();
  }
  bool agree(bool captured) override { return captured && others_captured; }
  void undo() override { ++undone; }

  bool others_captured = true, ran_eagerly = false;
  int runs = 0, undone = 0;

 private:
  StepPlan plan_;
  std::vector<std::function<void()>> works_;
};

/// Segments that add one to a number on the device.
class Segments : public ::testing::Test {
 protected:
  static constexpr float kOne = 1;

  void add_one() { device_->add(number(), number(), number() + 1, 1); }
  float* number() { return memory_->as<float>(); }
  float value() {
    float value = 0;
    device_->copy_to_host(&value, number(), sizeof value);
    return value;
  }
  StepWay run() { return graphs_.run({.samples = 1}, segment_); }

  std::unique_ptr<Backend> device_ = testing::make_test_backend();
  std::unique_ptr<DeviceBuffer> memory_ = device_->allocate(2 * sizeof(float), "number and one");
  StepGraphs graphs_{*device_};
  TestSegment segment_;
  std::vector<float> seen_;
  const std::function<void()> add_ = [this] { add_one(); };
  const std::function<void()> look_ = [this] { seen_.push_back(value()); };

  void SetUp() override { device_->copy_to_device(number() + 1, &kOne, sizeof kOne); }
};

TEST_F(Segments, AreCapturedTheSecondTimeAndReplayedThen) {
  segment_.add(add_);
  EXPECT_EQ(run(), StepWay::eager) << "the first time is for libraries to load";
  EXPECT_TRUE(segment_.ran_eagerly);
  EXPECT_EQ(value(), 1);
  EXPECT_EQ(run(), StepWay::captured);
  EXPECT_FALSE(segment_.ran_eagerly);
  EXPECT_EQ(value(), 2) << "capturing does the work once";
  EXPECT_EQ(run(), StepWay::replayed);
  EXPECT_EQ(value(), 3);
  EXPECT_EQ(segment_.runs, 2) << "the graph does it";
  EXPECT_EQ(graphs_.use().graphs, 1u);
  EXPECT_EQ(graphs_.use().replays, 1);
}

TEST_F(Segments, AreGraphsBetweenWhichTheHostWorks) {
  segment_.add(add_);
  segment_.add(look_, true);
  segment_.add(add_);
  for (const StepWay way : {StepWay::eager, StepWay::captured, StepWay::replayed})
    EXPECT_EQ(run(), way);
  EXPECT_EQ(value(), 6);
  EXPECT_EQ(seen_, (std::vector<float>{1, 3, 5}));
}

TEST_F(Segments, ThatCannotBeCapturedAreTriedOnce) {
  segment_.add([this] {
    add_one();
    device_->synchronize();
  });
  run();
  EXPECT_EQ(run(), StepWay::eager);
  EXPECT_TRUE(graphs_.has_failed());
  EXPECT_EQ(segment_.undone, 1);
  EXPECT_THAT(graphs_.use().why_not, ::testing::HasSubstr("cudaErrorStreamCapture"));
  EXPECT_EQ(value(), 2) << "once each";
  EXPECT_EQ(segment_.runs, 3);
  EXPECT_EQ(run(), StepWay::eager);
  EXPECT_FALSE(graphs_.has_failed());
  EXPECT_EQ(segment_.runs, 4);
}

TEST_F(Segments, ThatAnotherRankCouldNotCaptureRunEagerly) {
  segment_.add(add_);
  segment_.others_captured = false;
  run();
  EXPECT_EQ(run(), StepWay::eager);
  EXPECT_EQ(value(), 2);
  EXPECT_EQ(segment_.undone, 1);
  EXPECT_EQ(graphs_.use().why_not, "another rank could not capture a step");
  EXPECT_EQ(graphs_.use().graphs, 0u);
}

TEST_F(Segments, ThatFailBehindTheHostsWorkGoOnThere) {
  for (int i = 0; i < 2; ++i) {
    segment_.add(add_);
    segment_.add(look_, true);
  }
  segment_.add(add_);
  segment_.add([this] { device_->synchronize(); });
  segment_.add(look_, true);
  segment_.add(add_);
  run();
  seen_.clear();
  EXPECT_EQ(run(), StepWay::captured);
  EXPECT_EQ(value(), 8) << "each once";
  EXPECT_EQ(seen_, (std::vector<float>{5, 6, 7}));
  EXPECT_TRUE(graphs_.has_failed());
  EXPECT_EQ(segment_.undone, 0) << "what had been done stays done";
  EXPECT_THAT(graphs_.use().why_not, ::testing::HasSubstr("cudaErrorStreamCapture"));
  EXPECT_EQ(graphs_.use().graphs, 0u);
  EXPECT_EQ(run(), StepWay::eager);
}

TEST_F(Segments, OfImagesWhoseSizeHasPassedAreDropped) {
  TestSegment first;
  first.add(add_);
  const auto run_size = [&](int size, StepSegment& segment) {
    return graphs_.run({.samples = 1, .size = size}, segment);
  };
  for (const StepWay way : {StepWay::eager, StepWay::captured, StepWay::replayed})
    EXPECT_EQ(run_size(1, first), way);
  segment_.add(add_);
  for (const StepWay way : {StepWay::eager, StepWay::captured, StepWay::replayed})
    EXPECT_EQ(run_size(0, segment_), way);
  EXPECT_EQ(value(), 6);
  EXPECT_EQ(graphs_.use().graphs, 2u) << "dropped ones count";
  EXPECT_EQ(graphs_.use().replays, 2);
  EXPECT_EQ(run_size(1, first), StepWay::eager) << "the size comes again";
  EXPECT_EQ(value(), 7);
}

TEST_F(Segments, AnErrorOfTheNetworkSaysHowToDoWithoutGraphs) {
  bool fails = false;
  segment_.add([&] {
    if (fails) throw CommError("rank 1: gone", "look at rank 1");
  });
  run();
  fails = true;
  try {
    run();
    FAIL() << "the communicator is of no use any more";
  } catch (const CommError& error) {
    EXPECT_STREQ(error.what(), "rank 1: gone");
    EXPECT_THAT(error.hint(),
                ::testing::AllOf(::testing::HasSubstr("LOCKSTEP_GRAPH=0"),
                                 ::testing::HasSubstr("look at rank 1")));
  }
  add_one();
  EXPECT_EQ(value(), 1) << "the device goes on";
}

}  // namespace
}  // namespace lockstep
