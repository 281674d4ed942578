// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/loops/simd_int.h"

/// Philox4x32-10 (core/base/random.h) for many counters at a time.
namespace lockstep::cpu::LOCKSTEP_ISA {

typedef std::uint64_t VecU64 __attribute__((vector_size(sizeof(Vec))));
inline constexpr int kPhiloxBlocks =
    kLanes / 2;  // Philox blocks of one vector, one per 64-bit lane
inline constexpr int kPhiloxWords = 4 * kPhiloxBlocks;  // elements that they decide

#ifdef __AVX512F__
LOCKSTEP_INLINE VecU64 multiply_low(VecU64 a, VecU64 b) {
  return VecU64(_mm512_mul_epu32(__m512i(a), __m512i(b)));
}
LOCKSTEP_INLINE VecU low_halves(VecU64 a, VecU64 b) {
  return VecU(_mm512_unpacklo_epi64(__m512i(a), __m512i(b)));
}
LOCKSTEP_INLINE VecU high_halves(VecU64 a, VecU64 b) {
  return VecU(_mm512_unpackhi_epi64(__m512i(a), __m512i(b)));
}
// Even lanes hold blocks 0-3, odd lanes blocks 4-7: unpacking then yields elements in order.
inline constexpr VecU64 kBlockOfLane = {0, 4, 1, 5, 2, 6, 3, 7};
#else
LOCKSTEP_INLINE VecU64 multiply_low(VecU64 a, VecU64 b) {
  return VecU64(_mm256_mul_epu32(__m256i(a), __m256i(b)));
}
LOCKSTEP_INLINE VecU low_halves(VecU64 a, VecU64 b) {
  return VecU(_mm256_unpacklo_epi64(__m256i(a), __m256i(b)));
}
LOCKSTEP_INLINE VecU high_halves(VecU64 a, VecU64 b) {
  return VecU(_mm256_unpackhi_epi64(__m256i(a), __m256i(b)));
}
inline constexpr VecU64 kBlockOfLane = {0, 2, 1, 3};
#endif

LOCKSTEP_INLINE VecU64 broadcast64(std::uint64_t value) { return value - VecU64{}; }

inline constexpr int kPhiloxSets =
    2;  // independent computations, since one waits for its multiplications

struct Words {
  VecU vectors[2 * kPhiloxSets];  // of consecutive elements
};

/// philox(key, step, sample << 32 | block + b) for kPhiloxSets * kPhiloxBlocks values of b. Only
/// the low half of each 64-bit lane is meant: the multiplication ignores the high one, so it may
/// keep rubbish.
LOCKSTEP_INLINE Words philox_words(const DropoutStream& stream,
                                   std::uint64_t sample,
                                   std::uint64_t block) {
  const VecU64 low = broadcast64(0xffffffffu);
  const VecU64 m0 = broadcast64(0xD2511F53u), m1 = broadcast64(0xCD9E8D57u);
  VecU64 c0[kPhiloxSets], c1[kPhiloxSets], c2[kPhiloxSets], c3[kPhiloxSets];
  for (int i = 0; i < kPhiloxSets; ++i) {
    c0[i] = broadcast64(stream.step);
    c1[i] = broadcast64(stream.step >> 32);
    c2[i] = broadcast64(block + std::uint64_t(i * kPhiloxBlocks)) + kBlockOfLane;
    c3[i] = broadcast64(sample);
  }
  std::uint32_t k0 = std::uint32_t(stream.key), k1 = std::uint32_t(stream.key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kPhiloxSets; ++i) {
      const VecU64 p0 = multiply_low(c0[i], m0), p1 = multiply_low(c2[i], m1);
      c0[i] = (p1 >> 32) ^ c1[i] ^ broadcast64(k0);
      c1[i] = p1;
      c2[i] = (p0 >> 32) ^ c3[i] ^ broadcast64(k1);
      c3[i] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  Words words;
  for (int i = 0; i < kPhiloxSets; ++i) {
    const VecU64 words01 = (c0[i] & low) | (c1[i] << 32), words23 = (c2[i] & low) | (c3[i] << 32);
    words.vectors[2 * i] = low_halves(words01, words23);
    words.vectors[2 * i + 1] = high_halves(words01, words23);
  }
  return words;
}

/// Words of elements [first, first + count) of a sample, `first` a multiple of four. Writes up to
/// the next multiple of kPhiloxStep.
inline constexpr std::int64_t kPhiloxStep = kPhiloxSets * kPhiloxWords;
LOCKSTEP_INLINE void sample_words(std::uint32_t* out,
                                  const DropoutStream& stream,
                                  std::uint64_t sample,
                                  std::uint64_t first,
                                  std::int64_t count) {
  for (std::int64_t e = 0; e < count; e += kPhiloxStep) {
    const Words words = philox_words(stream, sample, (first + std::uint64_t(e)) / 4);
    for (int v = 0; v < 2 * kPhiloxSets; ++v)
      __builtin_memcpy(out + e + v * kLanes, &words.vectors[v], sizeof(VecU));
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
