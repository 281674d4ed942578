// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#if defined(__aarch64__)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/fma.h>
#else
#include <immintrin.h>
#endif

#include "kernels/cpu/bf16.h"

/// Vectors of fp32 as wide as the instruction set that the including file is compiled for; see
/// Note [Loops for several instruction sets] in isa.h. `Vec` has +, -, *, / and comparisons from
/// the compiler. Partial loads read and partial stores write `count` elements, 0 <= count <=
/// kLanes, and touch no memory beyond them. Loads of bf16 widen exactly, stores round to nearest
/// even and keep NaN, in integer arithmetic: the conversions of AVX512_BF16 would flush subnormals.
#ifndef LOCKSTEP_ISA
#error "only files of kernels/cpu/loops and kernels/cpu/optimizers include this header"
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

LOCKSTEP_INLINE Vec widened(__m256i bf16) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}
LOCKSTEP_INLINE __m256i rounded_to_bf16(Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __m512i result = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16));
}
LOCKSTEP_INLINE Vec load(const Bf16* from) {
  return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
LOCKSTEP_INLINE Vec load(const Bf16* from, Mask mask) {
  return widened(_mm256_maskz_loadu_epi16(mask, from));
}
LOCKSTEP_INLINE void store(Bf16* to, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded_to_bf16(v));
}
LOCKSTEP_INLINE void store(Bf16* to, Vec v, Mask mask) {
  _mm256_mask_storeu_epi16(to, mask, rounded_to_bf16(v));
}

/// fp64, half as many lanes.
using VecF64 = __m512d;
LOCKSTEP_INLINE VecF64 zero_f64() { return _mm512_setzero_pd(); }
LOCKSTEP_INLINE VecF64 load_f64(const double* from) { return _mm512_loadu_pd(from); }
LOCKSTEP_INLINE void store(double* to, VecF64 v) { _mm512_storeu_pd(to, v); }
LOCKSTEP_INLINE VecF64 fma(VecF64 a, VecF64 b, VecF64 c) { return _mm512_fmadd_pd(a, b, c); }
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

LOCKSTEP_INLINE int lanes_in(Mask mask) {
  return __builtin_popcount(unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(mask))));
}
LOCKSTEP_INLINE Vec widened(__m128i bf16) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
}
LOCKSTEP_INLINE __m128i rounded_to_bf16(Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, is_nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}
LOCKSTEP_INLINE Vec load(const Bf16* from) {
  return widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
LOCKSTEP_INLINE Vec load(const Bf16* from, Mask mask) {
  Bf16 elements[kLanes] = {};
  for (int i = 0; i < lanes_in(mask); ++i) elements[i].bits = from[i].bits;
  return load(elements);
}
LOCKSTEP_INLINE void store(Bf16* to, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), rounded_to_bf16(v));
}
LOCKSTEP_INLINE void store(Bf16* to, Vec v, Mask mask) {
  Bf16 elements[kLanes];
  store(elements, v);
  for (int i = 0; i < lanes_in(mask); ++i) to[i].bits = elements[i].bits;
}

/// fp64, half as many lanes.
using VecF64 = __m256d;
LOCKSTEP_INLINE VecF64 zero_f64() { return _mm256_setzero_pd(); }
LOCKSTEP_INLINE VecF64 load_f64(const double* from) { return _mm256_loadu_pd(from); }
LOCKSTEP_INLINE void store(double* to, VecF64 v) { _mm256_storeu_pd(to, v); }
LOCKSTEP_INLINE VecF64 fma(VecF64 a, VecF64 b, VecF64 c) {
#if defined(__aarch64__)
  // SIMDe 0.8 multiplies and adds four lanes with two roundings, but two lanes with one.
  return _mm256_insertf128_pd(
      _mm256_castpd128_pd256(_mm_fmadd_pd(
          _mm256_castpd256_pd128(a), _mm256_castpd256_pd128(b), _mm256_castpd256_pd128(c))),
      _mm_fmadd_pd(
          _mm256_extractf128_pd(a, 1), _mm256_extractf128_pd(b, 1), _mm256_extractf128_pd(c, 1)),
      1);
#else
  return _mm256_fmadd_pd(a, b, c);
#endif
}
/// Reads kLanes / 2 fp32 values.
LOCKSTEP_INLINE VecF64 load_widened(const float* from) {
  return _mm256_cvtps_pd(_mm_loadu_ps(from));
}

#endif

inline constexpr int kLanesF64 = kLanes / 2;

/// Lanes that are all used: load and store with it are the plain ones.
struct AllLanes {};
template <typename T>
LOCKSTEP_INLINE Vec load(const T* from, AllLanes) {
  return load(from);
}
template <typename T>
LOCKSTEP_INLINE void store(T* to, Vec v, AllLanes) {
  store(to, v);
}

/// One element: widened exactly, rounded as `store` does.
LOCKSTEP_INLINE float widened(float value) { return value; }
LOCKSTEP_INLINE float widened(Bf16 value) {
  return __builtin_bit_cast(float, std::uint32_t(value.bits) << 16);
}
LOCKSTEP_INLINE void store_one(float* to, float value) { *to = value; }
LOCKSTEP_INLINE void store_one(Bf16* to, float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t up = bits + 0x7fffu + (bits >> 16 & 1u), quiet = bits | 0x400000u;
  to->bits = std::uint16_t((value == value ? up : quiet) >> 16);
}

/// Calls `body(offset, lanes)` for every kLanes elements of [0, elems) in order, with AllLanes, and
/// for what is left with a Mask: elementwise loops say what they do once, in a generic lambda.
template <typename Body>
LOCKSTEP_INLINE void for_each_vec(std::int64_t elems, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= elems; i += kLanes) body(i, AllLanes{});
  if (i < elems) body(i, first_lanes(elems - i));
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
