// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/flat.h"
#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Sixteen fp64 sums, whatever the vector width; the compiler splits them.
using Lanes = double __attribute__((vector_size(64)));
struct Sums {
  Lanes low{}, high{};
};

#ifdef __AVX512F__
LOCKSTEP_INLINE Lanes widen(const float* from) {
  return Lanes(_mm512_cvtps_pd(_mm256_loadu_ps(from)));
}
#else
LOCKSTEP_INLINE Lanes widen(const float* from) {
  Lanes out;
  for (int i = 0; i < 8; ++i) out[i] = from[i];
  return out;
}
#endif

LOCKSTEP_INLINE void add_squares(Sums& sums, const float* from) {
  const Lanes a = widen(from), b = widen(from + 8);
  sums.low += a * a;
  sums.high += b * b;
}

double block_sum(const float* values, std::int64_t elems) {
  Sums sums;
  std::int64_t i = 0;
  for (; i + 16 <= elems; i += 16) add_squares(sums, values + i);
  if (i < elems) {
    float tail[16] = {};
    for (int j = 0; i + j < elems; ++j) tail[j] = values[i + j];
    add_squares(sums, tail);
  }
  double lane[16];
  for (int j = 0; j < 8; ++j) {
    lane[j] = sums.low[j];
    lane[8 + j] = sums.high[j];
  }
  for (int half = 8; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}

}  // namespace

double squared_norm(const float* values, std::int64_t elems, std::int64_t block) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < elems; i += block)
    sum += block_sum(values + i, elems - i < block ? elems - i : block);
  return sum;
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
