// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/rotary.h"

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// One token's heads of one part.
template <typename T>
LOCKSTEP_INLINE void turn_heads(const RotaryPart<T>& part,
                                std::int64_t row,
                                std::int64_t pairs,
                                const float* cosines,
                                const float* sines) {
  const T* from = part.from + row * part.from_row;
  T* to = part.to + row * part.to_row;
  if (!part.turns) {
    for_each_vec(part.heads * 2 * pairs,
                 [=](std::int64_t i, auto lanes) { store(to + i, load(from + i, lanes), lanes); });
    return;
  }
  for (std::int64_t h = 0; h < part.heads; ++h, from += 2 * pairs, to += 2 * pairs)
    for_each_vec(pairs, [=](std::int64_t i, auto lanes) {
      const Vec cosine = load(cosines + i, lanes), sine = load(sines + i, lanes);
      const Vec x = load(from + i, lanes), y = load(from + pairs + i, lanes);
      store(to + i, x * cosine - y * sine, lanes);
      store(to + pairs + i, y * cosine + x * sine, lanes);
    });
}

}  // namespace

template <typename T>
void rotary(const RotaryArgs<T>& a) {
  for (std::int64_t n = 0; n < a.samples; ++n)
    for (const RotaryPart<T>& part : a.parts)
      turn_heads(part, n * a.tokens + a.token, a.pairs, a.cosines, a.sines);
}

LOCKSTEP_INSTANTIATE(rotary);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
