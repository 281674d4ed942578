// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/loops/simd_math.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Beyond it both forms are 0 or x in fp32; smaller arguments keep infinities out of the formulas.
constexpr float kFar = 20.0f;

LOCKSTEP_INLINE Vec magnitude(Vec x) {
  const Vec absolute = from_bits(bits_of(x) & broadcast_int(0x7fffffff));
  return min(broadcast(kFar), absolute);  // NaN stays NaN
}

/// Phi(-t) = e^(-t^2 / 2) P(u) / (t + k) with u = (t - k) / (t + k), k = 2.5: P interpolates at
/// Chebyshev nodes of t in [0, 13.4] within 0.3 * 2^-24.
LOCKSTEP_INLINE Vec normal_cdf(Vec x) {
  const Vec t = magnitude(x);
  const Vec w = broadcast(1.0f) / (t + broadcast(2.5f));
  const Vec u = fma(w, broadcast(-5.0f), broadcast(1.0f));
  Vec p = broadcast(-1.5569775258337e-4f);
  p = fma(p, u, broadcast(-3.0941154728143e-4f));
  p = fma(p, u, broadcast(6.8246228944338e-4f));
  p = fma(p, u, broadcast(2.5219095703073e-3f));
  p = fma(p, u, broadcast(-1.5999647157290e-3f));
  p = fma(p, u, broadcast(-1.6385585244011e-2f));
  p = fma(p, u, broadcast(9.2356761072539e-3f));
  p = fma(p, u, broadcast(1.3198692062247e-1f));
  p = fma(p, u, broadcast(-4.3369199759939e-1f));
  p = fma(p, u, broadcast(7.0665666073795e-1f));
  // t^2 / 2 in two parts: the rounding of the square alone would cost the exponential many ulp.
  const Vec half = broadcast(0.5f) * t;
  const Vec square = half * t;
  const Vec low = fma(half, t, -square);
  const Vec head = exp_nonpositive(-square);
  const Vec e = fma(head, -low, head);
  const Vec tail = e * (p * w);
  return x < zero() ? tail : broadcast(1.0f) - tail;
}

/// Phi(x) + x phi(x), phi the density, as 1/2 + x P(x^2): P interpolates at Chebyshev nodes of
/// [0, 5.75^2], so that the result is within 4 * 2^-24; beyond it is within 2.5 * 2^-24 of 0 or 1.
LOCKSTEP_INLINE Vec normal_slope(Vec x) {
  constexpr float kEnd = 5.75f;
  const Vec t = max(broadcast(-kEnd), min(broadcast(kEnd), x));             // NaN stays NaN
  const Vec u = fma(t * t, broadcast(6.0491494834e-2f), broadcast(-1.0f));  // in [-1, 1]
  Vec p = broadcast(-2.8484931681e-3f);
  p = fma(p, u, broadcast(6.4735333435e-3f));
  p = fma(p, u, broadcast(-1.2527358485e-3f));
  p = fma(p, u, broadcast(1.0364326590e-4f));
  p = fma(p, u, broadcast(-1.8750751391e-2f));
  p = fma(p, u, broadcast(3.3141162246e-2f));
  p = fma(p, u, broadcast(-3.2795403153e-2f));
  p = fma(p, u, broadcast(4.2030312121e-2f));
  p = fma(p, u, broadcast(-6.0372933745e-2f));
  p = fma(p, u, broadcast(6.9872610271e-2f));
  p = fma(p, u, broadcast(-7.0308342576e-2f));
  p = fma(p, u, broadcast(6.6641524434e-2f));
  p = fma(p, u, broadcast(-5.9561952949e-2f));
  p = fma(p, u, broadcast(5.1719240844e-2f));
  p = fma(p, u, broadcast(-4.7291941941e-2f));
  p = fma(p, u, broadcast(4.9366682768e-2f));
  p = fma(p, u, broadcast(-6.2281448394e-2f));
  p = fma(p, u, broadcast(1.2307182699e-1f));
  const Vec slope = fma(t, p, broadcast(0.5f));
  const Vec far = x > broadcast(kEnd) ? broadcast(1.0f) : slope;
  return x < broadcast(-kEnd) ? zero() : far;
}

struct Sigmoid {
  Vec value, slope_argument;  // s = 1 / (1 + e^-v) and s (1 - s)
};

/// v = 2 sqrt(2 / pi) (x + 0.044715 x^3), as (1 + tanh(v / 2)) / 2 = 1 / (1 + e^-v).
LOCKSTEP_INLINE Sigmoid sigmoid(Vec x) {
  const Vec t = magnitude(x);
  const Vec v = t * fma(t * t, broadcast(0.07135481627159f), broadcast(1.59576912160573f));
  const Vec e = exp_nonpositive(-v);
  const Vec inverse = broadcast(1.0f) / (broadcast(1.0f) + e);
  const Vec small = e * inverse;
  return {x < zero() ? small : inverse, small * inverse};
}

}  // namespace

template <typename T>
void gelu_erf(T* y, const T* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    const Vec v = load(x + i, lanes);
    store(y + i, v * normal_cdf(v), lanes);
  });
}

template <typename T>
void gelu_erf_bwd(T* dx, const T* dy, const T* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(dx + i, load(dy + i, lanes) * normal_slope(load(x + i, lanes)), lanes);
  });
}

template <typename T>
void gelu_tanh(T* y, const T* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    const Vec v = load(x + i, lanes);
    store(y + i, v * sigmoid(v).value, lanes);
  });
}

template <typename T>
void gelu_tanh_bwd(T* dx, const T* dy, const T* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    const Vec v = load(x + i, lanes);
    const Sigmoid s = sigmoid(v);
    const Vec bounded = max(broadcast(-kFar), min(broadcast(kFar), v));
    const Vec slope =
        bounded *
        fma(bounded * bounded, broadcast(0.21406444881478f), broadcast(1.59576912160573f));
    store(dx + i, load(dy + i, lanes) * fma(slope, s.slope_argument, s.value), lanes);
  });
}

LOCKSTEP_INSTANTIATE(gelu_erf);
LOCKSTEP_INSTANTIATE(gelu_erf_bwd);
LOCKSTEP_INSTANTIATE(gelu_tanh);
LOCKSTEP_INSTANTIATE(gelu_tanh_bwd);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
