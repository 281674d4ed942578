// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/device/device_tools.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

using ::testing::HasSubstr;

TEST(AbsentTools, KernelTimesSayWhatTheBuildLackedAndWhatToDo) {
  try {
    make_tracer();
    FAIL() << "there is nothing to trace with";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no cupti.h"));
    EXPECT_THAT(error.hint(), HasSubstr("install CUPTI"));
    EXPECT_THAT(error.hint(), HasSubstr("-DCUPTI_INCLUDE_DIR="));
  }
}

TEST(AbsentTools, ThereAreNoRanges) { EXPECT_EQ(make_range_marker(), nullptr); }

}  // namespace
}  // namespace lockstep::cuda
