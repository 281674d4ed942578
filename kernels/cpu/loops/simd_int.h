// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/loops/simd.h"

/// Vectors of 32-bit integers in addition to Vec, and bytes that widen to them. Comparisons of Vec
/// and VecI give a VecI of all-ones and zeros, which selects with `mask ? a : b`.
namespace lockstep::cpu::LOCKSTEP_ISA {

typedef std::int32_t VecI __attribute__((vector_size(sizeof(Vec))));
typedef std::uint32_t VecU __attribute__((vector_size(sizeof(Vec))));

LOCKSTEP_INLINE VecI broadcast_int(std::int32_t value) { return value - VecI{}; }
LOCKSTEP_INLINE Vec to_float(VecI v) { return __builtin_convertvector(v, Vec); }

#ifdef __AVX512F__

LOCKSTEP_INLINE VecI load_u8(const std::uint8_t* from, AllLanes) {
  return VecI(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
LOCKSTEP_INLINE VecI load_u8(const std::uint8_t* from, Mask mask) {
  return VecI(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, from)));
}
/// The low byte of each lane.
LOCKSTEP_INLINE void store_u8(std::uint8_t* to, VecI v, AllLanes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(__m512i(v)));
}
LOCKSTEP_INLINE void store_u8(std::uint8_t* to, VecI v, Mask mask) {
  _mm_mask_storeu_epi8(to, mask, _mm512_cvtepi32_epi8(__m512i(v)));
}
LOCKSTEP_INLINE VecI load_i32(const std::int32_t* from, Mask mask) {
  return VecI(_mm512_maskz_loadu_epi32(mask, from));
}
/// Lanes of a comparison that are true and belong to the first `count`.
LOCKSTEP_INLINE int count_true(VecI condition, std::int64_t count) {
  const Mask mask = _mm512_movepi32_mask(__m512i(condition));
  return __builtin_popcount(unsigned(mask & first_lanes(count)));
}

#else

LOCKSTEP_INLINE VecI load_u8(const std::uint8_t* from, AllLanes) {
  return VecI(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
LOCKSTEP_INLINE VecI load_u8(const std::uint8_t* from, Mask mask) {
  std::uint8_t bytes[kLanes] = {};
  for (int i = 0; i < lanes_in(mask); ++i) bytes[i] = from[i];
  return load_u8(bytes, AllLanes{});
}
/// The low byte of each lane.
LOCKSTEP_INLINE void store_u8(std::uint8_t* to, VecI v, AllLanes) {
  const __m256i masked = _mm256_and_si256(__m256i(v), _mm256_set1_epi32(255));
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(masked), _mm256_extracti128_si256(masked, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}
LOCKSTEP_INLINE void store_u8(std::uint8_t* to, VecI v, Mask mask) {
  std::uint8_t bytes[kLanes];
  store_u8(bytes, v, AllLanes{});
  for (int i = 0; i < lanes_in(mask); ++i) to[i] = bytes[i];
}
LOCKSTEP_INLINE VecI load_i32(const std::int32_t* from, Mask mask) {
  return VecI(_mm256_maskload_epi32(from, mask));
}
/// Lanes of a comparison that are true and belong to the first `count`.
LOCKSTEP_INLINE int count_true(VecI condition, std::int64_t count) {
  const __m256i mask = _mm256_and_si256(__m256i(condition), first_lanes(count));
  return __builtin_popcount(unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(mask))));
}

#endif

}  // namespace lockstep::cpu::LOCKSTEP_ISA
