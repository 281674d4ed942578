// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/loops/simd.h"

/// Reductions across the lanes of a vector, each in one fixed order.
namespace lockstep::cpu::LOCKSTEP_ISA {

inline constexpr float kInfinity = __builtin_inff();

/// Lanes outside the mask are `other`.
template <typename T>
LOCKSTEP_INLINE Vec load_or(const T* from, AllLanes, Vec) {
  return load(from);
}
#ifdef __AVX512F__
LOCKSTEP_INLINE Vec load_or(const float* from, Mask mask, Vec other) {
  return _mm512_mask_loadu_ps(other, mask, from);
}
LOCKSTEP_INLINE Vec load_or(const Bf16* from, Mask mask, Vec other) {
  return _mm512_mask_mov_ps(other, mask, load(from, mask));
}
LOCKSTEP_INLINE float largest(Vec v) { return _mm512_reduce_max_ps(v); }
LOCKSTEP_INLINE float total(Vec v) { return _mm512_reduce_add_ps(v); }
/// The two halves, widened and added.
LOCKSTEP_INLINE VecF64 fold_f64(Vec v) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(v)) + _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}
LOCKSTEP_INLINE Vec keep_lanes(Vec v, Mask mask) { return _mm512_maskz_mov_ps(mask, v); }
#else
template <typename T>
LOCKSTEP_INLINE Vec load_or(const T* from, Mask mask, Vec other) {
  return _mm256_blendv_ps(other, load(from, mask), _mm256_castsi256_ps(mask));
}
LOCKSTEP_INLINE float largest(Vec v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
LOCKSTEP_INLINE float total(Vec v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
/// The two halves, widened and added.
LOCKSTEP_INLINE VecF64 fold_f64(Vec v) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(v)) + _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}
LOCKSTEP_INLINE Vec keep_lanes(Vec v, Mask mask) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(mask));
}
#endif

LOCKSTEP_INLINE Vec keep_lanes(Vec v, AllLanes) { return v; }

/// The sum of the lanes: halves added until one is left.
LOCKSTEP_INLINE double total_pairwise(VecF64 v) {
  double lane[kLanesF64];
  store(lane, v);
  for (int half = kLanesF64 / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

/// The reductions of four vectors at once, as four lanes: a third of the instructions.
template <typename Join256, typename Join128, typename Join>
LOCKSTEP_INLINE __m128 reduce_four(const Vec (&v)[4], Join256 join256, Join128 join128, Join join) {
#ifdef __AVX512F__
  const Vec ab = join(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
  const Vec cd = join(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
  const Vec all = join(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  const __m256 half = join256(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
#else
  const Vec ab = join(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]));
  const Vec cd = join(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]));
  const __m256 half = join256(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
#endif
  return join128(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
/// NaN in a lane may be lost.
LOCKSTEP_INLINE __m128 largest_of_four(const Vec (&v)[4]) {
  return reduce_four(
      v,
      [](__m256 a, __m256 b) { return _mm256_max_ps(a, b); },
      [](__m128 a, __m128 b) { return _mm_max_ps(a, b); },
      [](Vec a, Vec b) { return max(a, b); });
}
LOCKSTEP_INLINE __m128 total_of_four(const Vec (&v)[4]) {
  return reduce_four(
      v,
      [](__m256 a, __m256 b) { return a + b; },
      [](__m128 a, __m128 b) { return a + b; },
      [](Vec a, Vec b) { return a + b; });
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
