// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise.h"

#include <limits>

#include "kernels/cpu/loops/simd_int.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

template <typename T>
void relu(T* y, const T* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(y + i, max(zero(), load(x + i, lanes)), lanes);
  });
}

template <typename T>
void relu_limited(T* y, const T* x, std::int64_t elems, float limit) {
  const Vec most = broadcast(limit);
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(y + i, min(most, max(zero(), load(x + i, lanes))), lanes);
  });
}

template <typename T>
void relu_bwd(T* dx, const T* dy, const T* y, std::int64_t elems, float largest) {
  if (largest == std::numeric_limits<float>::infinity()) {
    for_each_vec(elems, [=](std::int64_t i, auto lanes) {
      store(dx + i, load(y + i, lanes) > zero() ? load(dy + i, lanes) : zero(), lanes);
    });
    return;
  }
  const Vec most = broadcast(largest);
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    const Vec d = load(dy + i, lanes), v = load(y + i, lanes);
    store(dx + i, (v > zero()) & (v <= most) ? d : zero(), lanes);
  });
}

template <typename T>
void add(T* out, const T* a, const T* b, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(out + i, load(a + i, lanes) + load(b + i, lanes), lanes);
  });
}

void add_onto(float* out, const float* a, const float* b, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(out + i, load(out + i, lanes) + (load(a + i, lanes) + load(b + i, lanes)), lanes);
  });
}

template <typename T>
void scale(T* y, const T* x, float factor, std::int64_t elems) {
  const Vec f = broadcast(factor);
  for_each_vec(elems,
               [=](std::int64_t i, auto lanes) { store(y + i, f * load(x + i, lanes), lanes); });
}

namespace {

/// What affine loops do to a value before it is stored, unless they say otherwise.
struct Keep {
  template <typename Lanes>
  LOCKSTEP_INLINE Vec operator()(std::int64_t, Vec v, Lanes) const {
    return v;
  }
};

template <typename T, typename Load, typename Finish = Keep>
LOCKSTEP_INLINE void affine_rows(T* y,
                                 std::int64_t elems,
                                 const float* scale,
                                 const float* shift,
                                 std::int64_t period,
                                 Load load_x,
                                 Finish finish = {}) {
  for (std::int64_t row = 0; row < elems; row += period) {
    const std::int64_t count = elems - row < period ? elems - row : period;
    for_each_vec(count, [=](std::int64_t i, auto lanes) {
      const Vec v = fma(load_x(row + i, lanes), load(scale + i, lanes), load(shift + i, lanes));
      store(y + row + i, finish(row + i, v, lanes), lanes);
    });
  }
}

}  // namespace

template <typename T>
void affine(T* y,
            const T* x,
            std::int64_t elems,
            const float* scale,
            const float* shift,
            std::int64_t period) {
  affine_rows(y, elems, scale, shift, period, [=](std::int64_t i, auto lanes) {
    return load(x + i, lanes);
  });
}

template <typename T>
void affine_relu(T* y,
                 const T* x,
                 std::int64_t elems,
                 const float* scale,
                 const float* shift,
                 std::int64_t period,
                 float limit) {
  const Vec most = broadcast(limit);
  const auto load_x = [=](std::int64_t i, auto lanes) { return load(x + i, lanes); };
  if (limit == std::numeric_limits<float>::infinity())
    affine_rows(y, elems, scale, shift, period, load_x, [](std::int64_t, Vec v, auto) {
      return max(zero(), v);
    });
  else
    affine_rows(y, elems, scale, shift, period, load_x, [=](std::int64_t, Vec v, auto) {
      return min(most, max(zero(), v));
    });
}

template <typename T>
void affine_add_relu(T* y,
                     const T* x,
                     const T* r,
                     std::int64_t elems,
                     const float* scale,
                     const float* shift,
                     std::int64_t period) {
  affine_rows(
      y,
      elems,
      scale,
      shift,
      period,
      [=](std::int64_t i, auto lanes) { return load(x + i, lanes); },
      [=](std::int64_t i, Vec v, auto lanes) { return max(zero(), v + load(r + i, lanes)); });
}

template <typename T>
void affine_f32(T* y,
                const float* x,
                std::int64_t elems,
                const float* scale,
                const float* shift,
                std::int64_t period) {
  affine_rows(y, elems, scale, shift, period, [=](std::int64_t i, auto lanes) {
    return load(x + i, lanes);
  });
}

template <typename T>
void affine_u8(T* y,
               const std::uint8_t* x,
               std::int64_t elems,
               const float* scale,
               const float* shift,
               std::int64_t period) {
  affine_rows(y, elems, scale, shift, period, [=](std::int64_t i, auto lanes) {
    return to_float(load_u8(x + i, lanes));
  });
}

void round_to_bf16(Bf16* y, const float* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) { store(y + i, load(x + i, lanes), lanes); });
}

void widen_to_f32(float* y, const Bf16* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) { store(y + i, load(x + i, lanes), lanes); });
}

void round_to_f32(float* y, const float* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(y + i, widened(rounded_to_bf16(load(x + i, lanes))), lanes);
  });
}

LOCKSTEP_INSTANTIATE(relu);
LOCKSTEP_INSTANTIATE(relu_limited);
LOCKSTEP_INSTANTIATE(relu_bwd);
LOCKSTEP_INSTANTIATE(add);
LOCKSTEP_INSTANTIATE(scale);
LOCKSTEP_INSTANTIATE(affine);
LOCKSTEP_INSTANTIATE(affine_relu);
LOCKSTEP_INSTANTIATE(affine_add_relu);
LOCKSTEP_INSTANTIATE(affine_f32);
LOCKSTEP_INSTANTIATE(affine_u8);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
