// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/loops/simd_int.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

typedef std::uint64_t VecU64 __attribute__((vector_size(sizeof(Vec))));
constexpr int kBlocks = kLanes / 2;  // Philox blocks of one vector, one per 64-bit lane
constexpr int kWords = 4 * kBlocks;  // elements that they decide

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
constexpr VecU64 kBlockOfLane = {0, 4, 1, 5, 2, 6, 3, 7};
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
constexpr VecU64 kBlockOfLane = {0, 2, 1, 3};
#endif

LOCKSTEP_INLINE VecU64 broadcast64(std::uint64_t value) { return value - VecU64{}; }

struct Words {
  VecU first, second;  // of elements [0, kLanes) and [kLanes, 2 kLanes)
};

/// philox(key, step, sample << 32 | block + b) for kBlocks values of b. Only the low half of each
/// 64-bit lane is meant: the multiplication ignores the high one, so it may keep rubbish.
LOCKSTEP_INLINE Words philox_words(const DropoutStream& stream,
                                   std::uint64_t sample,
                                   std::uint64_t block) {
  const VecU64 low = broadcast64(0xffffffffu);
  const VecU64 m0 = broadcast64(0xD2511F53u), m1 = broadcast64(0xCD9E8D57u);
  VecU64 c0 = broadcast64(stream.step), c1 = broadcast64(stream.step >> 32);
  VecU64 c2 = broadcast64(block) + kBlockOfLane, c3 = broadcast64(sample);
  std::uint32_t k0 = std::uint32_t(stream.key), k1 = std::uint32_t(stream.key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const VecU64 p0 = multiply_low(c0, m0), p1 = multiply_low(c2, m1);
    c0 = (p1 >> 32) ^ c1 ^ broadcast64(k0);
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ broadcast64(k1);
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const VecU64 words01 = (c0 & low) | (c1 << 32), words23 = (c2 & low) | (c3 << 32);
  return {low_halves(words01, words23), high_halves(words01, words23)};
}

LOCKSTEP_INLINE void drop(
    float* y, const float* x, VecU words, std::int64_t count, const DropoutStream& stream) {
  const VecU threshold = stream.threshold - VecU{};
  const Vec scale = broadcast(stream.scale);
  if (count >= kLanes) {
    store(y, words >= threshold ? load(x) * scale : zero());
  } else if (count > 0) {
    const Mask lanes = first_lanes(count);
    store(y, words >= threshold ? load(x, lanes) * scale : zero(), lanes);
  }
}

}  // namespace

void dropout(float* y,
             const float* x,
             std::int64_t samples,
             std::int64_t sample_elems,
             const DropoutStream& stream) {
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t e = 0; e < sample_elems; e += kWords) {
      const Words words =
          philox_words(stream, stream.first_sample + std::uint64_t(n), std::uint64_t(e) / 4);
      const std::int64_t i = n * sample_elems + e;
      drop(y + i, x + i, words.first, sample_elems - e, stream);
      drop(y + i + kLanes, x + i + kLanes, words.second, sample_elems - e - kLanes, stream);
    }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
