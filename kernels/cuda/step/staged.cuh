// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/launch.cuh"

/// Where steps of a block program find matrices in shared memory: block_plan.h decides, at the time
/// of joining.
namespace lockstep::cuda {

/// In words from the first of the staged ones; kNotStaged: not there.
using StagedAt = std::int16_t;
inline constexpr StagedAt kNotStaged = -1;
__host__ __device__ constexpr bool is_staged(StagedAt at) { return at != kNotStaged; }

/// A one, which the kernel writes; matrices come after it.
inline constexpr StagedAt kStagedOne = 0, kFirstStaged = 4;
/// All of them. With the steps and a loss's rows they fit 48 KiB.
inline constexpr int kMaxStaged = 10624;

/// Length of the rows of a staged matrix of more than one, an odd multiple of four: eight lanes
/// that read 16 bytes each of rows of their own, or one word and their neighbours the next three
/// columns, meet no bank twice.
__host__ __device__ constexpr int staged_pitch(int columns) { return ((columns + 3) & ~7) + 4; }

/// Of a divisor. A division by an argument takes a thread some 25 instructions, this one two.
struct Inverse {
  std::uint32_t value;
};
constexpr Inverse inverse_of(int divisor) {
  return {std::uint32_t(((std::uint64_t{1} << 31) + std::uint64_t(divisor) - 1) / divisor)};
}
/// a / b, where a * b is below 2^31.
__host__ __device__ constexpr int quotient(int a, Inverse b) {
  return int(std::uint64_t(std::uint32_t(a)) * b.value >> 31);
}

}  // namespace lockstep::cuda
