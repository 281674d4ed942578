// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/exp2_approx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector_access.cuh"

// Note [Fragments]
//
// Instructions of tensor cores, which a whole warp issues; PTX ISA, sections on mma.m16n8k16 with
// .bf16 and on ldmatrix. Of a matrix a lane holds registers of two neighbouring bf16, the first in
// the lower half. With g = lane / 4 and t = lane % 4:
//   a (16 x 16): (row g, columns 2t, 2t+1), (g+8, 2t), (g, 2t+8), (g+8, 2t+8)
//   b (16 x 8):  (rows 2t, 2t+1, column g), (2t+8, g)
//   d (16 x 8):  (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1) as fp32
// The plain twins below say the same in C++; they are what the emulator runs.
namespace lockstep::cuda {

#ifdef __CUDACC__

/// d += a b
__device__ inline void multiply_fragments(float (&d)[4],
                                          const std::uint32_t (&a)[4],
                                          std::uint32_t b0,
                                          std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices from shared memory: lane 8 i + r brings the address of row r of matrix i, 8
/// bf16 aligned to 16 bytes, and gets (row g, columns 2t, 2t+1) of each; transposed: (rows 2t,
/// 2t+1, column g).
template <bool transposed>
__device__ inline void load_matrices(std::uint32_t (&m)[4], const Bf16* row) {
  const auto address = unsigned(__cvta_generic_to_shared(row));
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
}

#else

inline float half_of(std::uint32_t pair, int half) {
  return __uint_as_float(half == 0 ? pair << 16 : pair & 0xffff0000u);
}

inline void multiply_fragments(float (&d)[4],
                               const std::uint32_t (&a)[4],
                               std::uint32_t b0,
                               std::uint32_t b1) {
  const int lane = int(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
  const auto pair = [](std::uint32_t low, std::uint32_t high) {
    return std::uint64_t(high) << 32 | low;
  };
  for (int q = 0; q < 4; ++q) {  // lanes 4 g' + q hold columns of a, rows of b: 2q and so on
    const std::uint64_t rows[2] = {__shfl_sync(kAllLanes, pair(a[0], a[2]), 4 * g + q),
                                   __shfl_sync(kAllLanes, pair(a[1], a[3]), 4 * g + q)};
    const std::uint64_t columns[2] = {__shfl_sync(kAllLanes, pair(b0, b1), 4 * (2 * t) + q),
                                      __shfl_sync(kAllLanes, pair(b0, b1), 4 * (2 * t + 1) + q)};
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 2; ++c)
        for (int word = 0; word < 2; ++word)
          for (int half = 0; half < 2; ++half)
            d[2 * r + c] = fmaf(half_of(std::uint32_t(rows[r] >> 32 * word), half),
                                half_of(std::uint32_t(columns[c] >> 32 * word), half),
                                d[2 * r + c]);
  }
}

template <bool transposed>
inline void load_matrices(std::uint32_t (&m)[4], const Bf16* row) {
  const int lane = int(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
  emulator::require_aligned(row, kPackBytes, "ldmatrix");
  const auto bits = [](const Bf16* address) {
    return std::uint32_t(__bfloat16_as_ushort(*address));
  };
  for (int i = 0; i < 4; ++i) {
    const auto row_of = [&](int r) { return __shfl_sync(kAllLanes, row, 8 * i + r); };
    if constexpr (transposed) {
      const Bf16 *const first = row_of(2 * t), *const second = row_of(2 * t + 1);
      m[i] = bits(first + g) | bits(second + g) << 16;
    } else {
      const Bf16* const line = row_of(g);
      m[i] = bits(line + 2 * t) | bits(line + 2 * t + 1) << 16;
    }
  }
}

#endif

/// Two neighbours of a fragment, rounded to nearest even by one instruction.
__device__ inline std::uint32_t bf16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

}  // namespace lockstep::cuda
