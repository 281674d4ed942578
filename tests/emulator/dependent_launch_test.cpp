// SPDX-License-Identifier: Apache-2.0
// Dependent launches: which there are, and that the emulator finds kernels that would not be right
// with them. That every own kernel is right shows wherever one runs on the emulator.
#include "kernels/cuda/device/dependent_launch.h"

#include <gmock/gmock.h>

#include "kernels/cuda/device/dependent_support.h"
#include "lockstep/error.h"
#include "tests/emulator/stream_fixture.h"
#include "tests/support/cuda_emulator/access_check.h"

namespace lockstep::test {
namespace {

using cuda::set_dependent_launches;
using ::testing::HasSubstr;

class DependentLaunch : public GraphTest {
 protected:
  void SetUp() override {
    GraphTest::SetUp();
    set_dependent_launches(true);
  }
  void TearDown() override {
    set_dependent_launches(false);
    GraphTest::TearDown();
  }
  /// How many of the launches that `ask()` asks for are dependent.
  template <typename Ask>
  static std::size_t dependent(Ask ask) {
    const std::size_t before = emulator::calls().dependent_launches;
    ask();
    return emulator::calls().dependent_launches - before;
  }
};

TEST_F(DependentLaunch, OnlyWhereItIsAskedFor) {
  EXPECT_TRUE(cuda::has_dependent_launches(0));
  EXPECT_EQ(dependent([&] { set(a, x, 1); }), 1u);
  set_dependent_launches(false);
  EXPECT_EQ(dependent([&] { set(a, x, 1); }), 0u);
}

// An edge that lets a kernel begin early connects two kernels.
TEST_F(DependentLaunch, InACaptureAfterOneKernelAlone) {
  begin();
  EXPECT_EQ(dependent([&] { set(a, x, 1); }), 0u) << "nothing comes before it";
  EXPECT_EQ(dependent([&] { add(a, y, x); }), 1u);
  EXPECT_EQ(dependent([&] { add(a, y, x); }), 1u) << "the kernel before is dependent itself";
  EXPECT_EQ(cudaMemsetAsync(z, 0, sizeof(float), a), cudaSuccess);
  EXPECT_EQ(dependent([&] { add(a, z, y); }), 0u) << "a fill comes before it";
  order(a, event, b);
  EXPECT_EQ(dependent([&] { set(b, x, 5); }), 1u) << "one kernel of another stream";
  EXPECT_EQ(dependent([&] { add(a, z, y); }), 1u);
  order(b, other_event, a);
  EXPECT_EQ(dependent([&] { add(a, z, x); }), 0u) << "kernels of two streams";
  const cudaGraphExec_t executable = end(cudaSuccess, 8);
  ASSERT_NE(executable, nullptr);
  launch_and_wait(executable);
  EXPECT_EQ(*z, 2 + 2 + 5);  // y is 1 + 1 and added twice, then x
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

__global__ void careless_kernel(float* y) { *y = 1; }
__global__ void late_kernel(float* y) {
  *y = 1;
  cuda::wait_for_earlier_work();
}
/// Touches nothing, but lets what comes after it begin before what came before it has ended.
__global__ void idle_kernel() {}
__global__ void half_idle_kernel() {
  if (threadIdx.x % 2 == 0) cuda::wait_for_earlier_work();
}
__global__ void twice_kernel() {
  cuda::wait_for_earlier_work();
  cuda::wait_for_earlier_work();
}
__global__ void early_trigger_kernel() {
  cudaTriggerProgrammaticLaunchCompletion();
  cuda::wait_for_earlier_work();
}

template <typename... Arguments>
std::string fault_of(void (*kernel)(Arguments...), Arguments... arguments) {
  emulator::set_stream_mode(StreamMode::at_once);
  try {
    cuda::launch("planted", {.block = 2}, {}, kernel, arguments...);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(DependentLaunch, KernelsThatDoNotWaitAreFound) {
  for (const bool on : {true, false}) {
    set_dependent_launches(on);
    EXPECT_THAT(fault_of(idle_kernel), HasSubstr("thread (0, 0, 0): never waited"));
    EXPECT_THAT(fault_of(half_idle_kernel), HasSubstr("thread (1, 0, 0): never waited"));
    EXPECT_THAT(fault_of(careless_kernel, x),
                HasSubstr(emulator::accesses_are_checked() ? "touches memory too early: writes"
                                                           : "never waited"));
    EXPECT_THAT(fault_of(twice_kernel), HasSubstr("waits twice"));
    EXPECT_THAT(fault_of(early_trigger_kernel), HasSubstr("triggers too early"));
    if (emulator::accesses_are_checked()) {
      EXPECT_THAT(fault_of(late_kernel, x), HasSubstr("touches memory too early: writes"));
    }
  }
}

}  // namespace
}  // namespace lockstep::test
