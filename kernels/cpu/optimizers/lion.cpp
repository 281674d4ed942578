// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

void lion_update(const Lion& lion, const RangeUpdate& u) {
  float *const params = u.params, *const momentum = u.state[0];
  const float* const grads = u.grads;
  const double lr = double(u.lr) * double(u.lr_scale);
  const Vec scale = broadcast(u.grad_scale);
  const Vec keep = broadcast(float(1.0 - lr * double(u.weight_decay)));
  const Vec beta1 = broadcast(lion.beta1), rest1 = broadcast(1.0f - lion.beta1);
  const Vec beta2 = broadcast(lion.beta2), rest2 = broadcast(1.0f - lion.beta2);
  const Vec step = broadcast(float(lr));
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec g = load(grads + i, lanes) * scale, m = load(momentum + i, lanes);
    const Vec direction = beta1 * m + rest1 * g;
    store(momentum + i, beta2 * m + rest2 * g, lanes);
    const Vec kept = load(params + i, lanes) * keep;
    const Vec below = kept + step, above = kept - step;
    store(params + i, direction > zero() ? above : direction < zero() ? below : kept, lanes);
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
