// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/libraries/cupti_tracer.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

using ::testing::StartsWith;

TEST(CudaLibraries, EveryFunctionOfCuptiIsFound) {
  try {
    DynamicLibrary library(cupti_name());
  } catch (const EnvironmentError& missing) {
    GTEST_SKIP() << missing.what();
  }
  const auto tracer = make_cupti_tracer(cupti_name());
  struct : DeviceActivitySink {
    void take(const DeviceActivity&) override {}
    void lose(std::int64_t) override {}
  } sink;
  try {
    tracer->start(sink);
    tracer->stop();
  } catch (const EnvironmentError& error) {
    // The first thing that needs a driver. CUPTI 13.5 has no words for its statuses without one.
    EXPECT_THAT(error.what(), StartsWith("kernel times by CUPTI: CUPTI_ERROR"));
    EXPECT_NE(error.hint(), "");
  }
}

}  // namespace
}  // namespace lockstep::cuda
