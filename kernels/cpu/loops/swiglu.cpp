// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/loops/simd_math.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

struct LogisticParts {
  Vec value, rest;  // s = 1 / (1 + e^-x), and 1 - s without cancellation
};

LOCKSTEP_INLINE LogisticParts logistic(Vec x) {
  const Vec e = exp_nonpositive(from_bits(bits_of(x) | broadcast_int(int(0x80000000u))));
  const Vec inverse = broadcast(1.0f) / (broadcast(1.0f) + e);
  const Vec small = e * inverse;
  const VecI negative = x < zero();
  return {negative ? small : inverse, negative ? inverse : small};
}

}  // namespace

template <typename T>
void swiglu(T* y, const T* gate, const T* up, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    const Vec g = load(gate + i, lanes);
    store(y + i, g * logistic(g).value * load(up + i, lanes), lanes);
  });
}

template <typename T>
void swiglu_bwd(T* dgate, T* dup, const T* dy, const T* gate, const T* up, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    const Vec d = load(dy + i, lanes), g = load(gate + i, lanes), u = load(up + i, lanes);
    const LogisticParts s = logistic(g);
    const Vec silu = g * s.value;
    store(dgate + i, d * u * fma(silu, s.rest, s.value), lanes);
    store(dup + i, d * silu, lanes);
  });
}

LOCKSTEP_INSTANTIATE(swiglu);
LOCKSTEP_INSTANTIATE(swiglu_bwd);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
