// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "parallel/monitor/profile_trace.h"
#include "tests/tracing/small_training.h"
extern "C" {
#include "tests/tracing/fake_cupti.h"
}

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Told final : TrainObserver {
  void on_profile_without_device(const std::string& why, const std::string& hint) override {
    without = why + " | " + hint;
  }
  void on_profile(const ProfileRecord& record) override { profile = record; }
  ProfileRecord profile;
  std::string without;
};

const ProfileLine* line_of(const std::vector<ProfileLine>& lines, const std::string& name) {
  const auto found = std::ranges::find(lines, name, &ProfileLine::name);
  return found == lines.end() ? nullptr : &*found;
}

class ProfiledTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(FAKE_CUPTI, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    fake_ = reinterpret_cast<FakeCupti* (*)()>(dlsym(library, "fake_cupti"))();
    *fake_ = {};
    fake_->version = FAKE_CUPTI_VERSION;
    fake_->kernels_by_pop = 2;
  }
  FakeCupti* fake_ = nullptr;
};

TEST_F(ProfiledTraining, KernelTimesStandWithTheirOperatorsAndAddUpToTheRun) {
  Told told;
  testing::train_small({.profile = true}, &told);
  EXPECT_EQ(told.without, "");
  EXPECT_EQ(fake_->depth, 0) << "marks that were never taken back";
  EXPECT_EQ(fake_->enabled, 0);
  const ProfileRecord& profile = told.profile;
  EXPECT_TRUE(profile.by_device);
  EXPECT_EQ(profile.lost, 0);

  // Each run of an operator is one mark, and so two kernels of a microsecond.
  const ProfileLine* conv = line_of(profile.nodes, "conv2d1 conv2d_bwd_weights");
  ASSERT_NE(conv, nullptr);
  EXPECT_DOUBLE_EQ(conv->runs_a_step, 2);
  EXPECT_NEAR(conv->seconds, 3 * 2 * 2e-6, 1e-9);
  for (const char* name : {"optimizer", "copy_input", "exchange", "other", "idle", "conv2d"})
    EXPECT_NE(line_of(profile.lines, name), nullptr) << name;
  EXPECT_EQ(line_of(profile.lines, "wait_for_exchange"), nullptr) << "a wait of the host's";
  double share = 0;
  for (const ProfileLine& line : profile.lines) share += line.share;
  EXPECT_NEAR(share, 1, 1e-6);
}

TEST_F(ProfiledTraining, KernelTimesStandWithTheirOperatorsInWhateverOrderTheyCome) {
  fake_->hard_order = 1;
  Told told;
  testing::train_small({.profile = true}, &told);
  EXPECT_EQ(told.profile.lost, 0);
  const ProfileLine* conv = line_of(told.profile.nodes, "conv2d1 conv2d_bwd_weights");
  ASSERT_NE(conv, nullptr);
  EXPECT_NEAR(conv->seconds, 3 * 2 * 2e-6, 1e-9);
}

TEST_F(ProfiledTraining, StreamsThatRunAtOnceAreBusyOnce) {
  fake_->two_streams = 1;
  Told told;
  testing::train_small({.profile = true}, &told);
  const ProfileLine* idle = line_of(told.profile.lines, "idle");
  ASSERT_NE(idle, nullptr);
  double kernels = 0;
  for (const ProfileLine& line : told.profile.lines)
    if (line.name != "idle") kernels += line.seconds;
  const double run = idle->seconds / idle->share;
  EXPECT_NEAR(kernels / 2 + idle->seconds, run, 1e-6 * run);
}

TEST_F(ProfiledTraining, TheTraceHasARowOfTheDevice) {
  Told told;
  testing::train_small({.profile = true}, &told);
  const auto events = nlohmann::json::parse(told.profile.trace);
  bool has_row = false, has_kernel = false, has_evaluation = false;
  double last_of_step = 0;
  for (const auto& event : events) {
    has_row = has_row || (event["ph"] == "M" && event["args"]["name"] == "GPU compute");
    if (event.value("cat", "") != "device") continue;
    EXPECT_EQ(event["name"], "lockstep::cuda::fake_kernel");
    const auto time = event["ts"].get<double>();
    EXPECT_GE(time, 0);
    if (!event["args"].contains("step")) {
      EXPECT_NE(event["args"]["operator"], "conv2d_bwd_weights");
      EXPECT_GE(time, last_of_step);
      has_evaluation = has_evaluation || event["args"]["operator"] == "conv2d";
      continue;
    }
    EXPECT_EQ(event["args"]["step"], 3) << "the window begins behind two steps";
    last_of_step = std::max(last_of_step, time);
    has_kernel = has_kernel || (event["args"]["layer"] == "conv2d1" &&
                                event["args"]["operator"] == "conv2d_bwd_weights");
  }
  EXPECT_TRUE(has_row);
  EXPECT_TRUE(has_kernel);
  EXPECT_TRUE(has_evaluation) << "behind the last step, and of none";
}

TEST_F(ProfiledTraining, ADriverThatRefusesIsNamedAndTheHostsTimesRemain) {
  fake_->enable_status = 35;  // CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
  Told told;
  testing::train_small({.profile = true}, &told);
  EXPECT_THAT(told.without,
              AllOf(HasSubstr("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
                    HasSubstr("NVreg_RestrictProfilingToAdminUsers=0")));
  EXPECT_FALSE(told.profile.by_device);
  EXPECT_NE(line_of(told.profile.lines, "conv2d"), nullptr);
  EXPECT_NE(line_of(told.profile.lines, "wait_for_data"), nullptr);
  EXPECT_EQ(line_of(told.profile.lines, "idle"), nullptr);
}

TEST_F(ProfiledTraining, WithoutProfileCuptiIsLeftAlone) {
  fake_->enable_status = 35;
  Told told;
  testing::train_small({}, &told);
  EXPECT_EQ(told.without, "");
}

TEST(KernelWords, AreWithoutParameters) {
  EXPECT_EQ(kernel_display_name("_ZN8lockstep4cuda11relu_kernelEPfS1_l"),
            "lockstep::cuda::relu_kernel");
  EXPECT_EQ(kernel_display_name("_Z3addIfEvT_PFvS0_E"), "add<float>");
  EXPECT_EQ(kernel_display_name("sm90_xmma_gemm(f32)"), "sm90_xmma_gemm(f32)");
  EXPECT_EQ(kernel_display_name("copy to host"), "copy to host");
}

TEST(Ranges, WithoutAToolThereAreNone) {
  EXPECT_EQ(testing::make_test_backend()->ranges(), nullptr);
}

}  // namespace
}  // namespace lockstep
