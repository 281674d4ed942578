// SPDX-License-Identifier: Apache-2.0
// Losses whose target has the shape of the prediction.
#include "kernels/cpu/loops/simd_math.h"
#include "kernels/cpu/loops/simd_reduce.h"
#include "kernels/cpu/losses/losses.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

LOCKSTEP_INLINE Vec magnitude(Vec v) { return from_bits(bits_of(v) & broadcast_int(0x7fffffff)); }

/// Losses of one difference d: as a double, added to a sum of vectors, and the derivative.
struct SquaredError {
  double loss(float d) const { return double(d) * double(d); }
  LOCKSTEP_INLINE Vec add(Vec sum, Vec d) const { return fma(d, d, sum); }
  LOCKSTEP_INLINE Vec slope(Vec d) const { return d; }
};

struct AbsoluteError {
  double loss(float d) const { return d < 0 ? -double(d) : double(d); }
  LOCKSTEP_INLINE Vec add(Vec sum, Vec d) const { return sum + magnitude(d); }
  LOCKSTEP_INLINE Vec slope(Vec d) const {
    const Vec negative = d < zero() ? broadcast(-1.0f) : d;
    return d > zero() ? broadcast(1.0f) : negative;
  }
};

/// With a = min(|d|, delta), both branches are a (|d| - a / 2), in which only the last subtraction
/// and the product round. NaN, as the second argument of min and max, stays NaN.
struct HuberError {
  float delta;
  double loss(float d) const {
    const double size = d < 0 ? -double(d) : double(d);
    const double a = double(delta) < size ? double(delta) : size;
    return a * (size - 0.5 * a);
  }
  LOCKSTEP_INLINE Vec add(Vec sum, Vec d) const {
    const Vec size = magnitude(d), a = min(broadcast(delta), size);
    return fma(a, size - broadcast(0.5f) * a, sum);
  }
  LOCKSTEP_INLINE Vec slope(Vec d) const {
    return max(broadcast(-delta), min(broadcast(delta), d));
  }
};

template <typename Loss>
double regression_loss(const ElementLossArgs& a, Loss loss) {
  double sum = 0;
  if (a.features < kLanes / 2) {
    for (std::int64_t i = 0; i < a.samples * a.features; ++i)
      sum += loss.loss(a.x[i] - a.target[i]);
  } else {
    for (std::int64_t n = 0; n < a.samples; ++n) {
      Vec of_sample = zero();
      for_each_vec(a.features, [&](std::int64_t i, auto lanes) {
        const std::int64_t at = n * a.features + i;
        of_sample = loss.add(of_sample, load(a.x + at, lanes) - load(a.target + at, lanes));
      });
      sum += double(total(of_sample));
    }
  }
  if (a.dx == nullptr) return sum;
  const Vec factor = broadcast(a.dx_factor);
  for_each_vec(a.samples * a.features, [=](std::int64_t i, auto lanes) {
    store(a.dx + i, factor * loss.slope(load(a.x + i, lanes) - load(a.target + i, lanes)), lanes);
  });
  return sum;
}

}  // namespace

double squared_error(const ElementLossArgs& args) { return regression_loss(args, SquaredError{}); }
double absolute_error(const ElementLossArgs& args) {
  return regression_loss(args, AbsoluteError{});
}
double huber_error(const ElementLossArgs& args) {
  return regression_loss(args, HuberError{args.delta});
}

LossSums binary_cross_entropy(const ElementLossArgs& a) {
  const std::int64_t elems = a.samples * a.features;
  LossSums sums;
  VecF64 sum = zero_f64();
  const Vec one = broadcast(1.0f);
  for_each_vec(elems, [&](std::int64_t i, auto lanes) {
    const Vec x = load(a.x + i, lanes), target = load(a.target + i, lanes);
    const Vec e = exp_nonpositive(-magnitude(x));
    const Vec u = one + e, inverse = one / u;
    // ln(1 + e): what rounding 1 + e to u took away is added, as far as its size needs it.
    const Vec log = log_from_one(u) + (e - (u - one)) * inverse;
    const Vec loss = max(zero(), x) - x * target + log;
    sum = sum + fold_f64(keep_lanes(loss, lanes));
    const VecI right = (x > zero()) == (target > broadcast(0.5f));
    sums.correct += count_true(right, at_most(elems - i, kLanes));
    if (a.dx == nullptr) return;
    const Vec sigmoid = (x < zero() ? e : one) * inverse;
    store(a.dx + i, broadcast(a.dx_factor) * (sigmoid - target), lanes);
  });
  sums.loss = total_pairwise(sum);
  return sums;
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
