// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_lock.h"

#include <gtest/gtest.h>
#include <optional>

#include "tests/io/scratch_folder.h"

namespace lockstep {
namespace {

TEST(RunLock, TheEndIsNotedUntilTheNextStart) {
  const io::ScratchFolder folder;
  EXPECT_EQ(RunLock::noted_end(folder.path(), RunLock::kRun), std::nullopt);
  for (const int exit_code : {0, 75}) {
    RunLock lock(folder.path());
    EXPECT_EQ(RunLock::noted_end(folder.path(), RunLock::kRun), std::nullopt);
    lock.note_end(exit_code);
    EXPECT_EQ(RunLock::noted_end(folder.path(), RunLock::kRun), exit_code);
    EXPECT_TRUE(RunLock::holder(folder.path(), RunLock::kRun)->starts_with("process "));
  }
  EXPECT_EQ(RunLock::noted_end(folder.path(), RunLock::kRun), 75);
  const RunLock killed(folder.path());
  EXPECT_EQ(RunLock::noted_end(folder.path(), RunLock::kRun), std::nullopt);
}

TEST(RunLock, WhatIsNoEndIsNone) {
  const io::ScratchFolder folder;
  for (const char* text : {"",
                           "process 1",
                           "process 1\n\n",
                           "process 1\nended with exit code \n",
                           "process 1\nended with exit code 1x\n"}) {
    folder.write(RunLock::kRun, text);
    EXPECT_EQ(RunLock::noted_end(folder.path(), RunLock::kRun), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep
