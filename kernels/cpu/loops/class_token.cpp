// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/embedding/class_token.h"

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

template <typename T>
void class_token(T* y,
                 const T* x,
                 const float* token,
                 const float* positions,
                 std::int64_t samples,
                 std::int64_t tokens,
                 std::int64_t width) {
  const std::int64_t sample = tokens * width;
  for (std::int64_t n = 0; n < samples; ++n) {
    T* const first = y + n * (sample + width);
    for_each_vec(width, [=](std::int64_t i, auto lanes) {
      store(first + i, load(token + i, lanes) + load(positions + i, lanes), lanes);
    });
    T* const rest = first + width;
    const T* const patches = x + n * sample;
    const float* const places = positions + width;
    for_each_vec(sample, [=](std::int64_t i, auto lanes) {
      store(rest + i, load(patches + i, lanes) + load(places + i, lanes), lanes);
    });
  }
}

LOCKSTEP_INSTANTIATE(class_token);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
