// SPDX-License-Identifier: Apache-2.0
// Every allocation that telling TensorBoard of a run takes is made to fail, one by one.
#include <cstdint>
#include <filesystem>
#include <gtest/gtest.h>
#include <new>
#include <string>
#include <unistd.h>

#include "launcher/output/tensorboard_file.h"
#include "tests/support/replaced_new.h"

namespace lockstep {
namespace {

std::int64_t until_failure = 0;

bool count_down(const void* /*caller*/) { return --until_failure != 0; }

/// What TensorboardFile::finish() says.
std::string tell_of_a_run(const std::string& folder) {
  TensorboardFile file(folder);
  file.on_start(nullptr);
  StepRecord step;
  for (step.step = 1; step.step <= 2; ++step.step) file.on_step(step);
  file.on_evaluation(EvaluationRecord{});
  file.on_rollback(RollbackRecord{});
  return file.finish();
}

TEST(TensorboardMemory, AnAllocationThatFailsIsAnErrorAndNoCrash) {
  const std::string folder =
      ::testing::TempDir() + "tensorboard_memory_" + std::to_string(getpid());
  int failed = 0;
  for (std::int64_t at = 1;; ++at) {
    bool fails = false;
    until_failure = at;
    testing::on_allocation = &count_down;
    try {
      tell_of_a_run(folder);
    } catch (const std::bad_alloc&) {
      fails = true;
    }
    testing::on_allocation = nullptr;
    std::filesystem::remove_all(folder);  // more files take more allocations
    if (until_failure > 0) break;         // it has fewer
    failed += fails;
  }
  EXPECT_GT(failed, 50);
  EXPECT_EQ(tell_of_a_run(folder), "");
  EXPECT_FALSE(std::filesystem::is_empty(folder)) << "nothing was written at all";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
