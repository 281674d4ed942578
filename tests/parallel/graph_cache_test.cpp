// SPDX-License-Identifier: Apache-2.0
#include "core/step/graph_cache.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/exec/backend.h"
#include "tests/support/test_backend.h"

namespace lockstep {
namespace {

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
  bool capture(const std::function<void(WorkCapture&)>& work, bool others_captured = true) {
    return graphs_.capture({.samples = 1},
                           {work, [=](bool own) { return own && others_captured; }});
  }

  std::unique_ptr<Backend> device_ = testing::make_test_backend();
  std::unique_ptr<DeviceBuffer> memory_ = device_->allocate(2 * sizeof(float), "number and one");
  GraphCache graphs_{*device_};

  void SetUp() override { device_->copy_to_device(number() + 1, &kOne, sizeof kOne); }
};

TEST_F(Segments, AreCapturedTheSecondTime) {
  const auto work = [&](WorkCapture&) { add_one(); };
  EXPECT_FALSE(capture(work)) << "the first time is for libraries to load";
  EXPECT_FALSE(graphs_.has_failed());
  EXPECT_EQ(value(), 0);
  EXPECT_TRUE(capture(work));
  EXPECT_EQ(value(), 1) << "capturing does the work once";
  graphs_.find({.samples = 1})->replay();
  EXPECT_EQ(value(), 2);
}

TEST_F(Segments, AreCutWhereTheHostHasToWork) {
  std::vector<float> seen;
  const auto work = [&](WorkCapture& capture) {
    add_one();
    capture.cut_for_host([&] { seen.push_back(value()); });
    add_one();
  };
  capture(work);
  EXPECT_TRUE(capture(work));
  graphs_.find({.samples = 1})->replay();
  EXPECT_EQ(value(), 4);
  EXPECT_EQ(seen, (std::vector<float>{1, 3}));
}

TEST_F(Segments, ThatCannotBeCapturedAreTriedOnce) {
  int calls = 0;
  const auto work = [&](WorkCapture&) {
    ++calls;
    add_one();
    device_->synchronize();
  };
  capture(work);
  EXPECT_FALSE(capture(work));
  EXPECT_TRUE(graphs_.has_failed());
  EXPECT_THAT(graphs_.why_not(), ::testing::HasSubstr("cudaErrorStreamCapture"));
  EXPECT_EQ(value(), 0) << "nothing was done";
  add_one();
  EXPECT_EQ(value(), 1) << "the device goes on";
  EXPECT_FALSE(capture(work));
  EXPECT_EQ(calls, 1);
}

TEST_F(Segments, ThatAnotherRankCouldNotCaptureAreNotDone) {
  const auto work = [&](WorkCapture&) { add_one(); };
  capture(work);
  EXPECT_FALSE(capture(work, false));
  EXPECT_EQ(value(), 0);
  EXPECT_EQ(graphs_.why_not(), "another rank could not capture a step");
  EXPECT_EQ(graphs_.find({.samples = 1}), nullptr);
}

TEST_F(Segments, ThatFailBehindACutGoOnThere) {
  std::vector<float> seen;
  const auto work = [&](WorkCapture& capture) {
    for (int i = 0; i < 2; ++i) {
      add_one();
      capture.cut_for_host([&] { seen.push_back(value()); });
    }
    add_one();
    device_->synchronize();
    capture.cut_for_host([&] { seen.push_back(value()); });
    add_one();
  };
  capture(work);
  EXPECT_TRUE(capture(work));
  EXPECT_EQ(value(), 4) << "each once";
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(graphs_.has_failed());
  EXPECT_THAT(graphs_.why_not(), ::testing::HasSubstr("cudaErrorStreamCapture"));
  EXPECT_EQ(graphs_.find({.samples = 1}), nullptr);
}

TEST_F(Segments, AnErrorOfTheNetworkSaysHowToDoWithoutGraphs) {
  const auto work = [&](WorkCapture&) { throw CommError("rank 1: gone", "look at rank 1"); };
  capture(work);
  try {
    capture(work);
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
