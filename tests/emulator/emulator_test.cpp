// SPDX-License-Identifier: Apache-2.0
// Mistakes planted into kernels, which the emulator must find, and the same kernels without them.
// What AddressSanitizer and UBSan look for in their builds ends the process there; races and
// uninitialised shared memory they do not see, but the poison in shared memory shows.
#include <algorithm>
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "core/ops/scale.h"
#include "kernels/cuda/cuda_backend.h"
#include "lockstep/error.h"
#include "tests/emulator/planted_kernels.h"
#include "tests/ops/op_case.h"
#include "tests/support/cuda_emulator/access_check.h"

namespace lockstep::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

using Planted = std::vector<float> (*)(bool bug);

/// What the error says that ends `run()`; nothing where none does.
template <typename Run>
std::string fault_of(Run run) {
  try {
    run();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// The bug is found and told with kernel, block and thread.
void expect_fault(Planted planted, const std::string& kernel, const std::string& kind) {
  EXPECT_THAT(fault_of([&] { planted(true); }),
              AllOf(HasSubstr(kernel + ": cudaError"),
                    HasSubstr("block (0, 0, 0), thread ("),
                    HasSubstr(kind)));
}

/// What is found by watching accesses here and by a sanitizer in its builds.
void expect_bad_access(Planted planted,
                       const std::string& kernel,
                       const std::string& kind,
                       const std::string& sanitizers_words) {
  if (emulator::accesses_are_checked())
    expect_fault(planted, kernel, kind);
  else
    EXPECT_DEATH(planted(true), sanitizers_words);
}

/// Found by watching accesses; where a sanitizer excludes that, the launch ends, and `seen` is true
/// of what it has written.
template <typename Seen>
void expect_race(Planted planted, const std::string& kernel, const std::string& kind, Seen seen) {
  if (!emulator::accesses_are_checked()) {
    EXPECT_TRUE(seen(planted(true))) << kernel;
    return;
  }
  EXPECT_THAT(
      fault_of([&] { planted(true); }),
      AllOf(
          HasSubstr(kernel + ": cudaErrorLaunchFailure"), HasSubstr("thread ("), HasSubstr(kind)));
}

bool is_nan(float x) { return std::isnan(x); }

/// Thread t has `factor` times t + `distance`, counted modulo `period`.
void expect_rotated(const std::vector<float>& y, int distance, int period, float factor = 1) {
  for (int i = 0; i < int(y.size()); ++i) {
    const int t = i % kThreads;
    EXPECT_EQ(y[std::size_t(i)], factor * float(t / period * period + (t + distance) % period))
        << i;
  }
}

TEST(Emulator, OutOfBounds) {
  const std::vector<float> y = copy_past_the_end(false);
  EXPECT_EQ(y.back(), kThreads - 3);
  expect_bad_access(copy_past_the_end,
                    "copy",
                    "out of bounds: writes 4 bytes at byte 248 of an allocation of 248 bytes",
                    "heap-buffer-overflow");
}

TEST(Emulator, OutOfSharedMemory) {
  EXPECT_EQ(past_shared_memory(false).back(), kThreads - 1);
  expect_bad_access(past_shared_memory,
                    "shared",
                    "out of bounds: writes 4 bytes at byte 256 of shared memory",
                    "use-after-poison");
}

TEST(Emulator, HostMemory) {
  EXPECT_EQ(copy_from_host(false).back(), kThreads - 1);
  if (emulator::accesses_are_checked())
    expect_fault(copy_from_host, "copy", "out of bounds: reads 4 bytes");
  else  // host memory is memory to AddressSanitizer
    EXPECT_EQ(copy_from_host(true).back(), kThreads - 1);
}

TEST(Emulator, MissingBarrier) {
  expect_rotated(rotate_without_barrier(false), 1, kThreads);
  // Thread 0 comes first, and finds nothing.
  expect_race(rotate_without_barrier,
              "rotate",
              "uninitialised shared memory: reads 4 bytes at byte 4",
              [](const auto& y) { return is_nan(y[0]); });
}

TEST(Emulator, MissingBarrierBeforeReuse) {
  const std::vector<float> right = reuse_without_barrier(false);
  expect_rotated(right, 2, kThreads, 2);
  expect_race(reuse_without_barrier,
              "reuse",
              "thread (1, 0, 0): race: writes 4 bytes at byte 4 of shared memory, which thread "
              "(0, 0, 0) of block (0, 0, 0) has read with no barrier between",
              [&](const auto& y) { return y != right; });
}

TEST(Emulator, MissingSyncwarp) {
  expect_rotated(rotate_without_syncwarp(false), 1, 32);
  expect_race(rotate_without_syncwarp, "warp_rotate", "shared memory", [](const auto& y) {
    return is_nan(y[0]);
  });
}

TEST(Emulator, UninitialisedSharedMemory) {
  EXPECT_THAT(read_unwritten_shared(false), Each(1));
  expect_race(read_unwritten_shared,
              "uninitialised",
              "uninitialised shared memory: reads 4 bytes at byte 0",
              [](const auto& y) { return std::all_of(y.begin(), y.end(), is_nan); });
}

TEST(Emulator, DivergentBarrier) {
  EXPECT_THAT(barrier_in_branches(false), Each(1));
  expect_fault(barrier_in_branches,
               "branches",
               "divergent barrier: waits at the barrier at planted_kernels.cpp:");
  EXPECT_THAT(return_before_barrier(false), Each(1));
  expect_fault(return_before_barrier,
               "early_return",
               "thread (5, 0, 0): divergent barrier: has ended while thread (0, 0, 0) waits at "
               "planted_kernels.cpp:");
}

TEST(Emulator, DivergentWarp) {
  EXPECT_THAT(return_before_shuffle(false), Each(32));
  expect_fault(return_before_shuffle, "early_lane", "divergent warp: waits at reduce.cuh:");
  EXPECT_EQ(shuffle_beyond_mask(false)[33], 35);
  expect_fault(
      shuffle_beyond_mask, "other_mask", "reads lane 20, which is not in its mask 0x0000ffff");
}

TEST(Emulator, UnalignedVectorAccess) {
  EXPECT_EQ(unaligned_packs(false).back(), 2 * (4 * kThreads - 1));
  expect_bad_access(unaligned_packs,
                    "packs",
                    "unaligned: reads 16 bytes at byte 4 of an allocation",
                    "misaligned address");
}

// Of instructions whose twins move in other pieces; seen in every build.
TEST(Emulator, UnalignedInstructions) {
  EXPECT_EQ(unaligned_matrices(false)[kThreads - 1], 31);
  expect_fault(unaligned_matrices,
               "matrices",
               "unaligned: ldmatrix an address 8 bytes behind a multiple of 16");
  const std::vector<float> copied = unaligned_copies(false);
  EXPECT_EQ(copied[kThreads - 5], kThreads - 5);
  EXPECT_EQ(copied[kThreads - 1], 0);
  expect_fault(unaligned_copies,
               "copies",
               "unaligned: cp.async from an address 4 bytes behind a multiple of 16");
}

// Blocks run one after another here, so that unwatched ones get along.
TEST(Emulator, RaceBetweenBlocks) {
  EXPECT_EQ(count_blocks(false)[0], 3);
  expect_race(count_blocks,
              "sum_up",
              "race between blocks: reads 4 bytes at byte 0 of an allocation of 4 bytes, which "
              "thread (0, 0, 0) of block (0, 0, 0) has written",
              [](const auto& count) { return count[0] == 3; });
  EXPECT_EQ(read_of_another_block(false)[kThreads], kThreads);
  expect_race(read_of_another_block, "hand_over", "race between blocks", [](const auto& y) {
    return y[kThreads] == -1;
  });
}

ReferenceOutputs doubled(const ReferenceArgs& args) {
  std::vector<double> y = args.inputs[0];
  for (double& value : y) value *= 2;
  return {y};
}

TEST(Emulator, UnwrittenOutput) {
  const auto backend = make_cuda_backend(0);
  const OpCase scale{
      "planted", std::make_shared<ops::Scale>(2.0f), {random_f32({33}, 1)}, {{.c = 1}}};
  for (const bool bug : {false, true}) {
    ::testing::TestPartResultArray failures;
    {
      ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      check_case(scale,
                 [&](const KernelSpec& spec) { return make_incomplete_scale(spec, bug); },
                 doubled,
                 {*backend, true});
    }
    ASSERT_EQ(failures.size() > 0, bug);
    if (!bug) continue;
    EXPECT_THAT(failures.GetTestPartResult(0).message(),
                AllOf(HasSubstr("scale"), HasSubstr("worst element 32"), HasSubstr("nan")));
  }
}

TEST(Emulator, WhatThreadsTellEachOther) {
  const std::vector<float> y = sums();
  for (int t = 0; t < kThreads; ++t) {
    const auto value = [&](int row) { return y[std::size_t(row * kThreads + t)]; };
    const int lane = t % 32;
    EXPECT_EQ(value(0), kThreads * (kThreads - 1) / 2);
    EXPECT_EQ(value(1), float(0x11111111u));
    EXPECT_EQ(value(2), 5);
    EXPECT_EQ(value(3), float(lane < 30 ? t + 2 : t) + 1);
    EXPECT_EQ(value(4), t < 32 ? 1 + 2 : 0);
  }
}

TEST(Emulator, ShapesThatNoDeviceTakes) {
  launch_shape(3, 1024, 48 << 10, false);
  launch_shape(1, 32, 227 << 10, true);
  const auto fault = [](unsigned grid_y, unsigned threads, std::size_t shared_bytes, bool opt_in) {
    return fault_of([&] { launch_shape(grid_y, threads, shared_bytes, opt_in); });
  };
  EXPECT_THAT(fault(65536, 32, 0, false),
              HasSubstr("shape: cudaErrorInvalidConfiguration (launch: grid.y is 65536"));
  EXPECT_THAT(fault(1, 1025, 0, false), HasSubstr("block.x is 1025"));
  EXPECT_THAT(fault(1, 32, (48 << 10) + 4, false), HasSubstr("shape: cudaErrorInvalidValue"));
  EXPECT_THAT(fault(1, 32, (227 << 10) + 4, true), HasSubstr("opting in: cudaErrorInvalidValue"));
}

TEST(Emulator, CopiesStayWithinAllocations) {
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 100), cudaSuccess);
  char host[101] = {};
  EXPECT_EQ(cudaMemcpy(data, host, 100, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(data, host, 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, data, 101, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(data, 0, 101), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaErrorInvalidValue);
}

TEST(Emulator, MemoryThatIsNotThere) {
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, std::size_t{1} << 40), cudaErrorMemoryAllocation);
  EXPECT_THROW(make_cuda_backend(0)->allocate(std::size_t{1} << 40, "arena"), OutOfMemory);
}

}  // namespace
}  // namespace lockstep::test
