// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/flat.h"

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

void update_statistic(
    float* value, const float* sum, float weight, float momentum, std::int64_t elems) {
  const Vec w = broadcast(weight), share = broadcast(momentum);
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    const Vec v = load(value + i, lanes);
    store(value + i, v + share * (load(sum + i, lanes) - w * v), lanes);
  });
}

void clip_values(float* values, float limit, std::int64_t elems) {
  const Vec high = broadcast(limit), low = broadcast(-limit);
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(values + i, max(low, min(high, load(values + i, lanes))), lanes);
  });
}

void round_weights(Bf16* y, const float* x, std::int64_t elems, bool flushes) {
  constexpr std::uint32_t kSign = 0x80000000u, kInfinite = 0x7f800000u, kQuiet = 0x400000u;
  const std::uint32_t least = flushes ? 0x00800000u : 0;  // normal numbers' smallest
  for (std::int64_t i = 0; i < elems; ++i) {
    const auto bits = __builtin_bit_cast(std::uint32_t, x[i]);
    const std::uint32_t size = bits & ~kSign, nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    const std::uint32_t number = size < least ? bits & kSign : nearest;
    y[i].bits = std::uint16_t((size > kInfinite ? bits | kQuiet : number) >> 16);
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
