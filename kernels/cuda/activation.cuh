// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/arithmetic.cuh"

/// Activations and their gradients as functions for map() (elementwise.cuh) and for kernels that
/// apply one to what they have computed. T: what the operands are stored as. The polynomials and
/// their errors: kernels/cpu/loops/gelu.cpp.
namespace lockstep::cuda {

/// max(x, 0); NaN stays NaN.
struct Relu {
  __device__ float operator()(float x) const { return 0.0f > x ? 0.0f : x; }
};
/// y > 0 ? dy : 0
struct ReluGradient {
  __device__ float operator()(float dy, float y) const { return y > 0.0f ? dy : 0.0f; }
};
/// min(max(x, 0), limit); NaN stays NaN.
struct LimitedRelu {
  float limit;
  __device__ float operator()(float x) const {
    const float y = Relu{}(x);
    return y > limit ? limit : y;
  }
};
/// 0 < y <= largest ? dy : 0
struct LimitedReluGradient {
  float largest;
  __device__ float operator()(float dy, float y) const {
    return y > 0.0f && y <= largest ? dy : 0.0f;
  }
};

/// x between -bound and bound; NaN stays NaN.
__device__ inline float clamped(float x, float bound) {
  const float below = bound < x ? bound : x;
  return -bound > below ? -bound : below;
}

/// Beyond it both forms are 0 or x in fp32; smaller arguments keep infinities out of the formulas.
inline constexpr float kGeluFar = 20.0f;

__device__ inline float gelu_magnitude(float x) {
  const float absolute = fabsf(x);
  return kGeluFar < absolute ? kGeluFar : absolute;
}

/// Phi(-t) = e^(-t^2 / 2) P(u) / (t + k) with u = (t - k) / (t + k), k = 2.5.
template <typename T>
__device__ inline float normal_cdf(float x) {
  const float t = gelu_magnitude(x);
  const float w = reciprocal_for<T>(t + 2.5f);
  const float p = horner(fmaf(w, -5.0f, 1.0f),
                         -1.5569775258337e-4f,
                         -3.0941154728143e-4f,
                         6.8246228944338e-4f,
                         2.5219095703073e-3f,
                         -1.5999647157290e-3f,
                         -1.6385585244011e-2f,
                         9.2356761072539e-3f,
                         1.3198692062247e-1f,
                         -4.3369199759939e-1f,
                         7.0665666073795e-1f);
  // t^2 / 2 in two parts: the rounding of the square alone would cost the exponential many ulp.
  const float half = 0.5f * t;
  const float square = half * t;
  const float low = fmaf(half, t, -square);
  const float head = exp_for<T>(-square);
  const float tail = fmaf(head, -low, head) * (p * w);
  return x < 0.0f ? tail : 1.0f - tail;
}

/// Phi(x) + x phi(x), phi the density, as 1/2 + x P(x^2).
__device__ inline float normal_slope(float x) {
  constexpr float kEnd = 5.75f;
  const float t = clamped(x, kEnd);
  const float p = horner(fmaf(t * t, 6.0491494834e-2f, -1.0f),
                         -2.8484931681e-3f,
                         6.4735333435e-3f,
                         -1.2527358485e-3f,
                         1.0364326590e-4f,
                         -1.8750751391e-2f,
                         3.3141162246e-2f,
                         -3.2795403153e-2f,
                         4.2030312121e-2f,
                         -6.0372933745e-2f,
                         6.9872610271e-2f,
                         -7.0308342576e-2f,
                         6.6641524434e-2f,
                         -5.9561952949e-2f,
                         5.1719240844e-2f,
                         -4.7291941941e-2f,
                         4.9366682768e-2f,
                         -6.2281448394e-2f,
                         1.2307182699e-1f);
  const float slope = fmaf(t, p, 0.5f);
  const float far = x > kEnd ? 1.0f : slope;
  return x < -kEnd ? 0.0f : far;
}

struct Sigmoid {
  float value, slope;  ///< s = 1 / (1 + e^-v) and s (1 - s)
};

/// v = 2 sqrt(2 / pi) (x + 0.044715 x^3), as (1 + tanh(v / 2)) / 2 = 1 / (1 + e^-v).
template <typename T>
__device__ inline Sigmoid gelu_sigmoid(float x) {
  const float t = gelu_magnitude(x);
  const float v = t * fmaf(t * t, 0.07135481627159f, 1.59576912160573f);
  const float e = exp_for<T>(-v);
  const float inverse = reciprocal_for<T>(1.0f + e);
  const float small = e * inverse;
  return {x < 0.0f ? small : inverse, small * inverse};
}

template <typename T>
struct GeluErf {
  __device__ float operator()(float x) const { return x * normal_cdf<T>(x); }
};
template <typename T>
struct GeluErfGradient {
  __device__ float operator()(float dy, float x) const { return dy * normal_slope(x); }
};
template <typename T>
struct GeluTanh {
  __device__ float operator()(float x) const { return x * gelu_sigmoid<T>(x).value; }
};
template <typename T>
struct GeluTanhGradient {
  __device__ float operator()(float dy, float x) const {
    const Sigmoid s = gelu_sigmoid<T>(x);
    const float t = clamped(x, kGeluFar);
    const float slope = t * fmaf(t * t, 0.21406444881478f, 1.59576912160573f);
    return dy * fmaf(slope, s.slope, s.value);
  }
};

}  // namespace lockstep::cuda
