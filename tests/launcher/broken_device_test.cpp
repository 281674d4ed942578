// SPDX-License-Identifier: Apache-2.0
// A GPU that breaks in the middle of a training, emulated, and what people are told of it.
#include <exception>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/host/machine.h"
#include "lockstep/error.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/session/error_report.h"
#include "tests/launcher/flag_names.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/cuda_emulator/runtime_api.h"
#include "tests/support/cuda_emulator/streams.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

testing::SmallRun small_run() {
  testing::SmallRun run{[](Builder& nn, Value x) {
                          return nn.linear(nn.relu(nn.linear(nn.flatten(x), {.out_features = 8})),
                                           {.out_features = 10});
                        },
                        data::glyphs(64, 8),
                        {.global_batch = 16, .micro_batch = 8, .steps = 6}};
  run.options.eval_every = 0;
  run.options.log_every = 1;
  return run;
}

class BrokenDevice : public ::testing::Test {
 protected:
  ~BrokenDevice() override { emulator::break_device(cudaSuccess, 0); }

  /// What rank 3 says when its device breaks halfway through the kernels of a training.
  static ErrorReport report_of(cudaError_t status, std::string& block) {
    SelfCommunicator alone;
    emulator::reset_calls();
    const TrainSummary whole = testing::train(small_run(), alone);
    EXPECT_EQ(whole.steps, 6);
    emulator::break_device(status, emulator::calls().kernel_launches / 2);
    try {
      testing::train(small_run(), alone);
    } catch (...) {
      ErrorReport report = describe(std::current_exception());
      block = to_block(to_record(report, 3, {}));
      return report;
    }
    ADD_FAILURE() << "the training ends as if nothing had happened";
    return {};
  }
};

TEST_F(BrokenDevice, MemoryThatCannotBeCorrectedIsTheMachines) {
  std::string block;
  const ErrorReport report = report_of(cudaErrorECCUncorrectable, block);
  EXPECT_EQ(report.exit_code, 3);
  EXPECT_THAT(block,
              AllOf(HasSubstr("[rank 3 " + host_name() + "] error: GPU 0: "),
                    HasSubstr(": cudaErrorECCUncorrectable (the emulated device"),
                    HasSubstr("hint: the device is broken or taken: nvidia-smi -q shows")));
}

TEST_F(BrokenDevice, AFaultOfAKernelIsOurs) {
  std::string block;
  const ErrorReport report = report_of(cudaErrorIllegalAddress, block);
  EXPECT_EQ(report.exit_code, 1);
  EXPECT_THAT(block,
              AllOf(HasSubstr("[rank 3 " + host_name() + "] error: GPU 0: "),
                    HasSubstr(": cudaErrorIllegalAddress ("),
                    HasSubstr("hint: a kernel faulted: LOCKSTEP_SYNC=1 names its operator")));
}

}  // namespace
}  // namespace lockstep
