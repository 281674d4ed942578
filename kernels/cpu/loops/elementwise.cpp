// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise.h"

#include "kernels/cpu/loops/simd_int.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

void relu(float* y, const float* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(y + i, max(zero(), load(x + i, lanes)), lanes);
  });
}

void relu_bwd(float* dx, const float* dy, const float* y, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    const Vec d = load(dy + i, lanes);
    store(dx + i, load(y + i, lanes) > zero() ? d : zero(), lanes);
  });
}

void add_onto(float* out, const float* a, const float* b, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(out + i, load(out + i, lanes) + (load(a + i, lanes) + load(b + i, lanes)), lanes);
  });
}

void scale(float* y, const float* x, float factor, std::int64_t elems) {
  const Vec f = broadcast(factor);
  for_each_vec(elems,
               [=](std::int64_t i, auto lanes) { store(y + i, f * load(x + i, lanes), lanes); });
}

void cast_to_bf16(std::uint16_t* y, const float* x, std::int64_t elems) {
  for (std::int64_t i = 0; i < elems; ++i) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x[i]);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    y[i] = std::uint16_t(x[i] == x[i] ? rounded : (bits >> 16) | 0x40);
  }
}

void cast_to_f32(float* y, const std::uint16_t* x, std::int64_t elems) {
  for (std::int64_t i = 0; i < elems; ++i)
    y[i] = __builtin_bit_cast(float, std::uint32_t(x[i]) << 16);
}

namespace {

template <typename Load>
LOCKSTEP_INLINE void affine_rows(float* y,
                                 std::int64_t elems,
                                 const float* scale,
                                 const float* shift,
                                 std::int64_t period,
                                 Load load_x) {
  for (std::int64_t row = 0; row < elems; row += period) {
    const std::int64_t count = elems - row < period ? elems - row : period;
    for_each_vec(count, [=](std::int64_t i, auto lanes) {
      const Vec v = load_x(row + i, lanes);
      store(y + row + i, fma(v, load(scale + i, lanes), load(shift + i, lanes)), lanes);
    });
  }
}

}  // namespace

void affine(float* y,
            const float* x,
            std::int64_t elems,
            const float* scale,
            const float* shift,
            std::int64_t period) {
  affine_rows(y, elems, scale, shift, period, [=](std::int64_t i, auto lanes) {
    return load(x + i, lanes);
  });
}

void affine_u8(float* y,
               const std::uint8_t* x,
               std::int64_t elems,
               const float* scale,
               const float* shift,
               std::int64_t period) {
  affine_rows(y, elems, scale, shift, period, [=](std::int64_t i, auto lanes) {
    return to_float(load_u8(x + i, lanes));
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
