// SPDX-License-Identifier: Apache-2.0
// What several ranks are told by a program that was built without MPI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "parallel/comm/mpi_session.h"

namespace lockstep {
namespace {

TEST(AbsentMpi, SaysHowToGetIt) {
  EXPECT_FALSE(MpiSession::built_in());
  EXPECT_FALSE(MpiSession::running());
  try {
    const MpiSession session;
    ADD_FAILURE() << "a session without MPI";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("built without it"));
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("-DLOCKSTEP_MPI=ON"));
    EXPECT_EQ(error.exit_code(), ExitCode::environment);
  }
}

}  // namespace
}  // namespace lockstep
