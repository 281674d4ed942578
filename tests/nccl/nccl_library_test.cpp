// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "parallel/comm/nccl/nccl_communicator.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

bool is_installed() {
  try {
    cuda::DynamicLibrary library(nccl_name());
    return true;
  } catch (const EnvironmentError&) {
    return false;
  }
}

TEST(NcclLibrary, EveryFunctionIsFound) {
  if (!is_installed()) GTEST_SKIP() << nccl_name().file << " is not installed";
  const Nccl& functions = open_nccl();
#define LOCKSTEP_FOUND(name) EXPECT_NE(functions.name, nullptr) << #name;
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_FOUND)
  EXPECT_EQ(&open_nccl(), &functions);
  EXPECT_THAT(nccl_version(), StartsWith(std::to_string(NCCL_MAJOR) + "."));
  EXPECT_THAT(error_text(functions, ncclSystemError, nullptr), HasSubstr("system error"));
}

TEST(NcclLibrary, OneThatIsNotThereIsNamed) {
  for (int call = 0; call < 2; ++call) {
    try {
      open_nccl("libnccl-missing.so.2");
      FAIL() << "there is no such library";
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("libnccl-missing.so.2 (built against 2."));
      EXPECT_THAT(error.hint(), HasSubstr("nvidia-nccl-cu"));
    }
  }
}

TEST(NcclLibrary, VersionsReadAsNvidiaWritesThem) {
  EXPECT_EQ(version_text(22809), "2.28.9");
  EXPECT_EQ(version_text(21801), "2.18.1");
  EXPECT_EQ(version_text(2804), "2.8.4");
  EXPECT_EQ(version_text(0), "0.0.0");
}

template <int kCode>
ncclResult_t say_version(int* version) {
  *version = kCode;
  return ncclSuccess;
}

TEST(NcclLibrary, UnfitVersionsAreRefused) {
  Nccl nccl;
  nccl.ncclGetVersion = say_version<22602>;
  EXPECT_EQ(checked_version(nccl, nccl_name()), 22602);
  nccl.ncclGetVersion = say_version<22999>;
  EXPECT_EQ(checked_version(nccl, nccl_name()), 22999);
  const decltype(nccl.ncclGetVersion) unfit[] = {
      say_version<22507>, say_version<2804>, say_version<30000>};
  for (const auto version : unfit) {
    nccl.ncclGetVersion = version;
    EXPECT_THROW(checked_version(nccl, nccl_name()), EnvironmentError);
  }
}

}  // namespace
}  // namespace lockstep
