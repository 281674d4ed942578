// SPDX-License-Identifier: Apache-2.0
#include "core/exec/replica_hash.h"  // of which only constants are used: see Note [Loops for several ...]
#include "kernels/cpu/flat.h"
#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

typedef std::uint64_t Words __attribute__((vector_size(sizeof(Vec))));
constexpr int kWords = kLanes / 2;

#ifdef __AVX512F__
LOCKSTEP_INLINE Words load_bits(const float* from) {
  return Words(_mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
LOCKSTEP_INLINE Words multiply_low_halves(Words a, Words b) {
  return Words(_mm512_mul_epu32(__m512i(a), __m512i(b)));
}
LOCKSTEP_INLINE Words swap_halves(Words words) {
  return Words(_mm512_shuffle_epi32(__m512i(words), _MM_PERM_CDAB));
}
#else
LOCKSTEP_INLINE Words load_bits(const float* from) {
  return Words(_mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
LOCKSTEP_INLINE Words multiply_low_halves(Words a, Words b) {
  return Words(_mm256_mul_epu32(__m256i(a), __m256i(b)));
}
LOCKSTEP_INLINE Words swap_halves(Words words) {
  return Words(_mm256_shuffle_epi32(__m256i(words), 0xb1));
}
#endif

LOCKSTEP_INLINE Words broadcast_word(std::uint64_t value) { return value - Words{}; }

LOCKSTEP_INLINE Words round(Words words, std::uint32_t factor) {
  return swap_halves(words ^ multiply_low_halves(words, broadcast_word(factor)));
}

/// `places`: (offset + 1) * kReplicaHashStride of each element.
LOCKSTEP_INLINE Words mix(Words bits, Words places) {
  Words words = places ^ bits;
  words = round(words, kReplicaHashFactor1);
  words = round(words, kReplicaHashFactor2);
  words = round(words, kReplicaHashFactor3);
  return round(words, kReplicaHashFactor4);
}

}  // namespace

std::uint64_t hash(const float* values, std::int64_t offset, std::int64_t elems) {
  Words places, sums{};
  for (int j = 0; j < kWords; ++j)
    places[j] = (std::uint64_t(offset) + std::uint64_t(j) + 1) * kReplicaHashStride;
  const Words step = broadcast_word(kReplicaHashStride * kWords);
  std::int64_t i = 0;
  for (; i + kWords <= elems; i += kWords) {
    sums += mix(load_bits(values + i), places);
    places += step;
  }
  std::uint64_t sum = 0;
  for (int j = 0; j < kWords; ++j) sum += sums[j];
  if (i < elems) {
    float tail[kWords] = {};
    __builtin_memcpy(tail, values + i, std::size_t(elems - i) * sizeof(float));
    const Words mixed = mix(load_bits(tail), places);
    for (int j = 0; i + j < elems; ++j) sum += mixed[j];
  }
  return sum;
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
