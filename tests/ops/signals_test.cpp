// SPDX-License-Identifier: Apache-2.0
// Signals that come while a kernel runs: requests to stop, timers of profilers. Some GEMMs of
// oneDNN keep a heap address in the stack pointer, where a handler would write its frame.
#include <csignal>
#include <cstdint>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/time.h>

#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

volatile std::sig_atomic_t signals_seen = 0, signals_off_stack = 0;
std::uintptr_t stack_begin = 0, stack_end = 0;

void find_stack() {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void* begin = nullptr;
  std::size_t bytes = 0;
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  stack_begin = std::uintptr_t(begin);
  stack_end = stack_begin + bytes;
}

void handle(int) {
  const auto address = std::uintptr_t(__builtin_frame_address(0));
  if (address < stack_begin || address >= stack_end) signals_off_stack = signals_off_stack + 1;
  signals_seen = signals_seen + 1;
}

/// A signal with a handler every 100 microseconds of time.
class ManySignals {
 public:
  ManySignals() {
    signals_seen = 0;
    signals_off_stack = 0;
    find_stack();
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before_);
    const itimerval often{{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~ManySignals() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

/// Runs a kernel until many signals have come, and compares each result with that of a quiet run.
void expect_equal_bits_under_signals(const OpCase& op_case, const KernelFactory& factory) {
  const auto outputs = [&] {
    std::vector<std::vector<std::byte>> all;
    for (const HostTensor& output : run_kernel(op_case, factory)) all.push_back(output.bytes);
    return all;
  };
  const auto quiet = outputs();
  const ManySignals signals;
  for (int run = 0; run < 2000 && signals_seen < 100 && signals_off_stack == 0; ++run)
    ASSERT_TRUE(outputs() == quiet) << op_case.name << ", run " << run;
  EXPECT_EQ(signals_off_stack, 0) << op_case.name
                                  << ": a handler would write over what its data lie next to";
  EXPECT_GE(signals_seen, 100) << op_case.name;
}

// In sizes for which oneDNN 2.6 takes such a GEMM on AVX-512.
TEST(Signals, ChangeNoBitsOfProducts) {
  expect_equal_bits_under_signals({"linear",
                                   std::make_shared<ops::Linear>(false),
                                   {random_f32({1024, 513}, 1), random_f32({513, 513}, 2)}},
                                  [](const KernelSpec& spec) {
                                    return cpu::make_linear_kernel(op_cast<ops::Linear>(spec.op),
                                                                   spec);
                                  });
  expect_equal_bits_under_signals({"linear_bwd_weights",
                                   std::make_shared<ops::LinearBwdWeights>(false),
                                   {random_f32({512, 768}, 1), random_f32({512, 384}, 2)}},
                                  [](const KernelSpec& spec) {
                                    return cpu::make_linear_bwd_weights_kernel(
                                        op_cast<ops::LinearBwdWeights>(spec.op), spec);
                                  });
}

TEST(Signals, ChangeNoBitsOfConvolutions) {
  const ops::Conv2dAttrs attrs{.padding_h = 1, .padding_w = 1};
  expect_equal_bits_under_signals({"conv2d",
                                   std::make_shared<ops::Conv2d>(attrs),
                                   {random_f32({8, 14, 14, 64}, 1), random_f32({96, 3, 3, 64}, 2)}},
                                  [](const KernelSpec& spec) {
                                    return cpu::make_conv2d_kernel(op_cast<ops::Conv2d>(spec.op),
                                                                   spec);
                                  });
}

}  // namespace
}  // namespace lockstep::test
