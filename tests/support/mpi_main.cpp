// SPDX-License-Identifier: Apache-2.0
// main() of GoogleTest programs that run on several ranks: every rank runs every test, ranks above
// 0 print failures only, and the program fails if any rank failed, or a filter left no test.
#include <cstdio>
#include <gtest/gtest.h>
#include <memory>

#include "core/exec/communicator.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_session.h"
#include "tests/support/mpi_world.h"

namespace lockstep::testing {
namespace {

Communicator* world = nullptr;

class FailuresOnly final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& info) override { test_ = &info; }
  // Called with a lock held that current_test_info() would wait for.
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("[rank %d] %s.%s\n%s:%d: %s\n",
                world->rank(),
                test_ ? test_->test_suite_name() : "?",
                test_ ? test_->name() : "?",
                result.file_name() ? result.file_name() : "?",
                result.line_number(),
                result.message());
    std::fflush(stdout);
  }
  const ::testing::TestInfo* test_ = nullptr;
};

}  // namespace

Communicator& mpi_world() { return *world; }

}  // namespace lockstep::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const lockstep::MpiSession session;
  const auto communicator = lockstep::make_mpi_communicator(session);
  lockstep::testing::world = communicator.get();
  if (communicator->rank() > 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new lockstep::testing::FailuresOnly);
  }
  int own = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::printf("no test has a name that --gtest_filter matches\n");
    own = 1;
  }
  std::vector<int> all(std::size_t(communicator->size()));
  communicator->all_gather(&own, all.data(), sizeof own);
  for (int result : all)
    if (result != 0) return 1;
  return 0;
}
