// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

void lars_update(const Lars& lars, const RangeUpdate& u) {
  float *const params = u.params, *const momentum_buffer = u.state[0];
  const float* const grads = u.grads;
  const double grad_norm = u.direction_norm * double(u.grad_scale);
  double ratio = 1.0;
  if (u.is_tensor && u.weight_norm > 0 && grad_norm > 0)
    ratio = double(lars.trust_coefficient) * u.weight_norm /
            (grad_norm + double(u.weight_decay) * u.weight_norm);
  const Vec scale = broadcast(u.grad_scale), decay = broadcast(u.weight_decay);
  const Vec momentum = broadcast(lars.momentum);
  const Vec rate = broadcast(float(double(u.lr) * double(u.lr_scale) * ratio));
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec p = load(params + i, lanes);
    const Vec g = load(grads + i, lanes) * scale + decay * p;
    const Vec m = momentum * load(momentum_buffer + i, lanes) + rate * g;
    store(momentum_buffer + i, m, lanes);
    store(params + i, p - m, lanes);
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
