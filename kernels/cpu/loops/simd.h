// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <immintrin.h>

/// Vectors of fp32 as wide as the instruction set that the including file is compiled for; see
/// Note [Loops for two instruction sets] in isa.h. `Vec` has +, -, *, / and comparisons from the
/// compiler. Partial loads read and partial stores write `count` elements, 0 <= count <= kLanes,
/// and touch no memory beyond them.
#ifndef LOCKSTEP_ISA
#error "only files of kernels/cpu/loops include this header"
#endif
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

namespace lockstep::cpu::LOCKSTEP_ISA {

LOCKSTEP_INLINE std::int64_t at_least(std::int64_t a, std::int64_t b) { return a < b ? b : a; }
LOCKSTEP_INLINE std::int64_t at_most(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// The first `count` of eight 32-bit lanes, all bits set.
LOCKSTEP_INLINE __m256i first_of_eight(std::int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#ifdef __AVX512F__

using Vec = __m512;
inline constexpr int kLanes = 16;
using Mask = __mmask16;

LOCKSTEP_INLINE Vec zero() { return _mm512_setzero_ps(); }
LOCKSTEP_INLINE Vec broadcast(float value) { return _mm512_set1_ps(value); }
LOCKSTEP_INLINE Vec load(const float* from) { return _mm512_loadu_ps(from); }
LOCKSTEP_INLINE void store(float* to, Vec v) { _mm512_storeu_ps(to, v); }
/// The first `count` lanes.
LOCKSTEP_INLINE Mask first_lanes(std::int64_t count) { return Mask((1u << count) - 1u); }
/// Lanes outside `mask` are zero.
LOCKSTEP_INLINE Vec load(const float* from, Mask mask) { return _mm512_maskz_loadu_ps(mask, from); }
LOCKSTEP_INLINE void store(float* to, Vec v, Mask mask) { _mm512_mask_storeu_ps(to, mask, v); }
LOCKSTEP_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
/// NaN in `a` or `b` gives `b`, as the instruction does.
LOCKSTEP_INLINE Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
LOCKSTEP_INLINE Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
LOCKSTEP_INLINE Vec sqrt(Vec v) { return _mm512_sqrt_ps(v); }

/// fp64, half as many lanes.
using VecF64 = __m512d;
LOCKSTEP_INLINE VecF64 zero_f64() { return _mm512_setzero_pd(); }
LOCKSTEP_INLINE VecF64 load_f64(const double* from) { return _mm512_loadu_pd(from); }
LOCKSTEP_INLINE void store(double* to, VecF64 v) { _mm512_storeu_pd(to, v); }
/// Reads kLanes / 2 fp32 values.
LOCKSTEP_INLINE VecF64 load_widened(const float* from) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(from));
}

#else

using Vec = __m256;
inline constexpr int kLanes = 8;
using Mask = __m256i;

LOCKSTEP_INLINE Vec zero() { return _mm256_setzero_ps(); }
LOCKSTEP_INLINE Vec broadcast(float value) { return _mm256_set1_ps(value); }
LOCKSTEP_INLINE Vec load(const float* from) { return _mm256_loadu_ps(from); }
LOCKSTEP_INLINE void store(float* to, Vec v) { _mm256_storeu_ps(to, v); }
/// The first `count` lanes.
LOCKSTEP_INLINE Mask first_lanes(std::int64_t count) { return first_of_eight(count); }
/// Lanes outside `mask` are zero.
LOCKSTEP_INLINE Vec load(const float* from, Mask mask) { return _mm256_maskload_ps(from, mask); }
LOCKSTEP_INLINE void store(float* to, Vec v, Mask mask) { _mm256_maskstore_ps(to, mask, v); }
LOCKSTEP_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
/// NaN in `a` or `b` gives `b`, as the instruction does.
LOCKSTEP_INLINE Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
LOCKSTEP_INLINE Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
LOCKSTEP_INLINE Vec sqrt(Vec v) { return _mm256_sqrt_ps(v); }

/// fp64, half as many lanes.
using VecF64 = __m256d;
LOCKSTEP_INLINE VecF64 zero_f64() { return _mm256_setzero_pd(); }
LOCKSTEP_INLINE VecF64 load_f64(const double* from) { return _mm256_loadu_pd(from); }
LOCKSTEP_INLINE void store(double* to, VecF64 v) { _mm256_storeu_pd(to, v); }
/// Reads kLanes / 2 fp32 values.
LOCKSTEP_INLINE VecF64 load_widened(const float* from) {
  return _mm256_cvtps_pd(_mm_loadu_ps(from));
}

#endif

inline constexpr int kLanesF64 = kLanes / 2;

/// Lanes that are all used: load and store with it are the plain ones.
struct AllLanes {};
LOCKSTEP_INLINE Vec load(const float* from, AllLanes) { return load(from); }
LOCKSTEP_INLINE void store(float* to, Vec v, AllLanes) { store(to, v); }

/// Calls `body(offset, lanes)` for every kLanes elements of [0, elems) in order, with AllLanes, and
/// for what is left with a Mask: elementwise loops say what they do once, in a generic lambda.
template <typename Body>
LOCKSTEP_INLINE void for_each_vec(std::int64_t elems, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= elems; i += kLanes) body(i, AllLanes{});
  if (i < elems) body(i, first_lanes(elems - i));
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
