// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "parallel/comm/nccl/nccl_communicator.h"
#include "parallel/comm/self_communicator.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(AbsentNccl, SaysWhatTheBuildLackedAndWhatToDo) {
  SelfCommunicator self;
  testing::NullBackend backend;
  try {
    make_nccl_communicator(self, backend);
    FAIL() << "there is nothing to make it of";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no nccl.h"));
    EXPECT_THAT(error.hint(), HasSubstr("-DNCCL_INCLUDE_DIR="));
  }
  EXPECT_EQ(nccl_version(), "");
}

}  // namespace
}  // namespace lockstep
