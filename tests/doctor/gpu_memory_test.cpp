// SPDX-License-Identifier: Apache-2.0
// Who else holds a GPU's memory, in what a training says that finds too little of it.
#include <dlfcn.h>
#include <exception>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "launcher/advice/out_of_memory.h"
#include "lockstep/data/sources.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/session/error_report.h"
#include "tests/doctor/fake_machine.h"
#include "tests/support/metered_backend.h"

namespace lockstep::doctor {
namespace {

/// One rank with a GPU of which little is free.
class OneGpu final : public RankContext {
 public:
  OneGpu() {
    backend_.pretended = {.free = std::uint64_t{100} << 20,
                          .total = std::uint64_t{80} << 30,
                          .pool = "0000:43:00.0 00"};
  }
  Backend& backend() override { return backend_; }
  Communicator& communicator() override { return communicator_; }

 private:
  testing::MeteredBackend backend_{make_cpu_backend()};
  SelfCommunicator communicator_;
};

PlanRequest request_of_200_mib() {
  return {.model = nn::make_model({.name = "resnet20", .outputs = 10}),
          .loss = [](Builder& nn,
                     Value logits,
                     Value labels) { return nn.softmax_cross_entropy(logits, labels, 0.0f, {}); },
          .data = data::glyphs(256, 16),
          .options = {.global_batch = 256, .micro_batch = 256, .steps = 1},
          .on_host = false};
}

TEST(GpuMemory, ATrainingThatFindsTooLittleNamesWhoHoldsIt) {
  FakeMachine machine;
  machine.set_gpu("gpu1.process", "1");
  machine.set_gpu("gpu1.used", "64424509440");
  // Under its name, once it has been opened, it is found where the dynamic linker looks.
  void* const library =
      dlopen((machine.environment.library_folder + "/libnvidia-ml.so.1").c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  OneGpu rank;
  const TrainingMemory memory(rank, request_of_200_mib(), "resnet20");
  try {
    memory.require_headroom();
    ADD_FAILURE() << "there is room";
  } catch (...) {
    const ErrorReport report = describe(std::current_exception());
    EXPECT_EQ(report.exit_code, 4);
    EXPECT_THAT(report.details,
                ::testing::ContainsRegex("others there +[^\n]* \\(process 1\\) 60\\.0+ GiB\n"));
  }
}

}  // namespace
}  // namespace lockstep::doctor
