// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"

/// What optimizers that orthogonalize matrices have in common: for their kernels alone.
namespace lockstep::cpu::LOCKSTEP_ISA {

/// The direction of Nesterov's momentum, in place of the gradient.
LOCKSTEP_INLINE void write_nesterov_direction(float momentum_factor, const RangeUpdate& u) {
  float *const grads = u.grads, *const momentum_buffer = u.state[0];
  const Vec scale = broadcast(u.grad_scale), momentum = broadcast(momentum_factor);
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec g = load(grads + i, lanes) * scale;
    const Vec m = momentum * load(momentum_buffer + i, lanes) + g;
    store(momentum_buffer + i, m, lanes);
    store(grads + i, g + momentum * m, lanes);
  });
}

/// The direction over its norm.
LOCKSTEP_INLINE void normalize_direction(double eps, const RangeUpdate& u) {
  float* const directions = u.grads;
  const Vec inverse = broadcast(float(1.0 / (u.direction_norm + eps)));
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    store(directions + i, load(directions + i, lanes) * inverse, lanes);
  });
}

/// Decay, and `rate` along the direction.
LOCKSTEP_INLINE void move_along_direction(double rate, const RangeUpdate& u) {
  float* const params = u.params;
  const float* const directions = u.grads;
  const double lr = double(u.lr) * double(u.lr_scale);
  const Vec keep = broadcast(float(1.0 - lr * double(u.weight_decay)));
  const Vec step = broadcast(float(rate));
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec p = load(params + i, lanes) * keep;
    store(params + i, p - step * load(directions + i, lanes), lanes);
  });
}

/// Of other parameters: Adam with decoupled decay.
template <typename Optimizer>
LOCKSTEP_INLINE void update_others(const Optimizer& optimizer, const RangeUpdate& u) {
  float *const params = u.params, *const first_moment = u.state[0],
               *const second_moment = u.state[1];
  const float* const grads = u.grads;
  const double lr = double(u.lr) * double(u.lr_scale);
  const Vec scale = broadcast(u.grad_scale);
  const Vec keep = broadcast(float(1.0 - lr * double(u.weight_decay)));
  const Vec beta1 = broadcast(optimizer.beta1), rest1 = broadcast(1.0f - optimizer.beta1);
  const Vec beta2 = broadcast(optimizer.beta2), rest2 = broadcast(1.0f - optimizer.beta2);
  const Vec step = broadcast(float(lr / u.scalars.values[Optimizer::kFirstCorrection]));
  const Vec correction = broadcast(float(u.scalars.values[Optimizer::kRootCorrection]));
  const Vec eps = broadcast(optimizer.eps);
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec g = load(grads + i, lanes) * scale;
    const Vec m = beta1 * load(first_moment + i, lanes) + rest1 * g;
    const Vec v = beta2 * load(second_moment + i, lanes) + rest2 * (g * g);
    store(first_moment + i, m, lanes);
    store(second_moment + i, v, lanes);
    const Vec p = load(params + i, lanes) * keep;
    store(params + i, p - step * (m / (sqrt(v) * correction + eps)), lanes);
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
