// SPDX-License-Identifier: Apache-2.0
#include "core/base/exit_deadline.h"

#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using ::testing::ExitedWithCode;

constexpr milliseconds kHang{10000};

TEST(ExitDeadline, EndsAProcessThatHangs) {
  EXPECT_EXIT(
      {
        const ExitDeadline deadline(milliseconds(50), 7);
        std::this_thread::sleep_for(kHang);
        _exit(0);
      },
      ExitedWithCode(7),
      "");
}

TEST(ExitDeadline, LeavesAProcessThatWasInTime) {
  EXPECT_EXIT(
      {
        { const ExitDeadline deadline(milliseconds(100), 7); }
        std::this_thread::sleep_for(milliseconds(300));
        _exit(3);
      },
      ExitedWithCode(3),
      "");
}

TEST(ExitDeadline, ExitAfterIsForGood) {
  EXPECT_EXIT(
      {
        exit_after(milliseconds(50), 9);
        std::this_thread::sleep_for(kHang);
        _exit(0);
      },
      ExitedWithCode(9),
      "");
}

}  // namespace
}  // namespace lockstep
