// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

void adam_update(const Adam& adam, const RangeUpdate& u) {
  float *const params = u.params, *const first_moment = u.state[0],
               *const second_moment = u.state[1];
  const float* const grads = u.grads;
  const double lr = double(u.lr) * double(u.lr_scale);
  const Vec scale = broadcast(u.grad_scale), decay = broadcast(u.weight_decay);
  const Vec beta1 = broadcast(adam.beta1), rest1 = broadcast(1.0f - adam.beta1);
  const Vec beta2 = broadcast(adam.beta2), rest2 = broadcast(1.0f - adam.beta2);
  const Vec step = broadcast(float(lr / u.scalars.values[Adam::kFirstCorrection]));
  const Vec correction = broadcast(float(u.scalars.values[Adam::kRootCorrection]));
  const Vec eps = broadcast(adam.eps);
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec p = load(params + i, lanes);
    const Vec g = load(grads + i, lanes) * scale + decay * p;
    const Vec m = beta1 * load(first_moment + i, lanes) + rest1 * g;
    const Vec v = beta2 * load(second_moment + i, lanes) + rest2 * (g * g);
    store(first_moment + i, m, lanes);
    store(second_moment + i, v, lanes);
    store(params + i, p - step * (m / (sqrt(v) * correction + eps)), lanes);
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
