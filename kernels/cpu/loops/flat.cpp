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

}  // namespace lockstep::cpu::LOCKSTEP_ISA
