// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/flat.h"
#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

void adamw_range(float* params,
                 const float* grads,
                 float* first_moment,
                 float* second_moment,
                 std::int64_t elems,
                 const AdamwFactors& factors) {
  const Vec scale = broadcast(factors.grad_scale), keep = broadcast(factors.keep);
  const Vec beta1 = broadcast(factors.beta1), rest1 = broadcast(1.0f - factors.beta1);
  const Vec beta2 = broadcast(factors.beta2), rest2 = broadcast(1.0f - factors.beta2);
  const Vec step = broadcast(factors.step_size), eps = broadcast(factors.eps);
  const Vec correction = broadcast(factors.inverse_root_correction);
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
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
