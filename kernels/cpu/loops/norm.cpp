// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/flat.h"
#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Sixteen running sums, whatever the vector width.
constexpr int kSums = 16;
struct Sums {
  VecF64 part[kSums / kLanesF64];
};

LOCKSTEP_INLINE void add_squares(Sums& sums, const float* from) {
  for (int j = 0; j < kSums / kLanesF64; ++j) {
    const VecF64 v = load_widened(from + j * kLanesF64);
    sums.part[j] = fma(v, v, sums.part[j]);  // the product is exact in fp64
  }
}

double block_sum(const float* values, std::int64_t elems) {
  Sums sums;
  for (VecF64& part : sums.part) part = zero_f64();
  std::int64_t i = 0;
  for (; i + kSums <= elems; i += kSums) add_squares(sums, values + i);
  if (i < elems) {
    float tail[kSums] = {};
    for (int j = 0; i + j < elems; ++j) tail[j] = values[i + j];
    add_squares(sums, tail);
  }
  double lane[kSums];
  for (int j = 0; j < kSums / kLanesF64; ++j) store(lane + j * kLanesF64, sums.part[j]);
  for (int half = kSums / 2; half > 0; half /= 2)
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
