// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

#include "core/ops/conv2d.h"
#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

int threads_of_process() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    (void)entry;
    ++count;
  }
  return count;
}

/// A rank owns one core; other ranks own the others. OpenMP would start a team on every thread that
/// did not ask for less.
TEST(Threads, AConvolutionOnAFreshThreadStartsNoTeam) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "OpenMP sees one processor anyway";
  const ops::Conv2dAttrs attrs{.padding_h = 1, .padding_w = 1};
  const OpCase conv{"big",
                    std::make_shared<ops::Conv2d>(attrs),
                    {random_f32({8, 32, 32, 32}, 1), random_f32({64, 3, 3, 32}, 2)},
                    {},
                    {1}};
  const int before = threads_of_process();
  int during = 0;
  std::thread fresh([&] {
    run_kernel(conv, [](const KernelSpec& spec) {
      return cpu::make_conv2d_kernel(op_cast<ops::Conv2d>(spec.op), spec);
    });
    during = threads_of_process();
  });
  fresh.join();
  EXPECT_EQ(during, before + 1) << "the convolution left threads behind";
}

/// Kernels made on one thread may run on another, which OpenMP has not seen yet.
TEST(Threads, AKernelMadeElsewhereStartsNoTeam) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "OpenMP sees one processor anyway";
  struct RunOnFreshThread final : Kernel {
    std::unique_ptr<Kernel> made_here;
    int during = 0;
    explicit RunOnFreshThread(std::unique_ptr<Kernel> kernel) : made_here(std::move(kernel)) {}
    std::size_t workspace_bytes() const override { return made_here->workspace_bytes(); }
    std::vector<PackedCopy> packed_copies() const override { return made_here->packed_copies(); }
    void bind(const KernelBuffers& buffers) override { made_here->bind(buffers); }
    void pack(int index) override {
      std::thread([&] { made_here->pack(index); }).join();
    }
    void run(const RunState& state) override {
      const int before = threads_of_process();
      std::thread fresh([&] {
        made_here->run(state);
        during = threads_of_process();
      });
      fresh.join();
      EXPECT_EQ(during, before + 1) << "the convolution left threads behind";
    }
  };
  const ops::Conv2dAttrs attrs{.padding_h = 1, .padding_w = 1};
  const OpCase conv{"big",
                    std::make_shared<ops::Conv2dBwdWeights>(attrs, Shape{64, 3, 3, 32}),
                    {random_f32({8, 32, 32, 32}, 1), random_f32({8, 32, 32, 64}, 2)}};
  run_kernel(conv, [](const KernelSpec& spec) {
    return std::make_unique<RunOnFreshThread>(
        cpu::make_conv2d_bwd_weights_kernel(op_cast<ops::Conv2dBwdWeights>(spec.op), spec));
  });
}

}  // namespace
}  // namespace lockstep::test
