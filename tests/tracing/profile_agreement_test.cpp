// SPDX-License-Identifier: Apache-2.0
// Ranks of which one may not trace its device: all trace, or none.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/mpi_world.h"
#include "tests/tracing/small_training.h"
extern "C" {
#include "tests/tracing/fake_cupti.h"
}

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int kInsufficientPrivileges = 35;  // of cupti_result.h

/// On rank 0.
struct Told final : TrainObserver {
  void on_profile_without_device(const std::string& why, const std::string& hint) override {
    without.push_back(why + " | " + hint);
  }
  void on_profile(const ProfileRecord& record) override { profile = record; }

  /// The ranks whose kernels the trace has.
  std::set<int> traced() const {
    std::set<int> ranks;
    for (const auto& event : nlohmann::json::parse(profile.trace))
      if (event.value("cat", "") == "device") ranks.insert(event["pid"].get<int>());
    return ranks;
  }
  std::vector<std::string> without;
  ProfileRecord profile;
};

class ProfileAgreement : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(FAKE_CUPTI, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    fake_ = reinterpret_cast<FakeCupti* (*)()>(dlsym(library, "fake_cupti"))();
    *fake_ = {};
    fake_->version = FAKE_CUPTI_VERSION;
    fake_->kernels_by_pop = 1;
  }
  bool is_first() const { return world_.rank() == 0; }

  Communicator& world_ = testing::mpi_world();
  FakeCupti* fake_ = nullptr;
};

TEST_F(ProfileAgreement, AllTraceWhereAllCan) {
  Told told;
  testing::train_small({.profile = true}, &told, world_);
  if (!is_first()) return;
  EXPECT_THAT(told.without, IsEmpty());
  EXPECT_TRUE(told.profile.by_device);
  EXPECT_THAT(told.traced(), ElementsAre(0, 1));
}

TEST_F(ProfileAgreement, NoneTracesWhereOneIsRefusedAndThatOneIsNamed) {
  for (const int refused : {0, 1}) {
    fake_->enable_status = world_.rank() == refused ? kInsufficientPrivileges : 0;
    Told told;
    testing::train_small({.profile = true}, &told, world_);
    EXPECT_EQ(fake_->enabled, 0) << "CUPTI runs on";
    EXPECT_EQ(fake_->depth, 0);
    if (!is_first()) continue;
    EXPECT_THAT(told.without,
                ElementsAre(AllOf(StartsWith("rank " + std::to_string(refused) + ": "),
                                  HasSubstr("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
                                  HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"))));
    EXPECT_FALSE(told.profile.by_device);
    EXPECT_THAT(told.traced(), IsEmpty());
    EXPECT_THAT(told.profile.lines,
                ::testing::Contains(::testing::Field(&ProfileLine::name, "conv2d")));
  }
}

}  // namespace
}  // namespace lockstep
