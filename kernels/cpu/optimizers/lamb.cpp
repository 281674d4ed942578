// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

void write_direction(const Lamb& lamb, const RangeUpdate& u) {
  const float* const params = u.params;
  float *const grads = u.grads, *const first_moment = u.state[0], *const second_moment = u.state[1];
  const Vec scale = broadcast(u.grad_scale), decay = broadcast(u.weight_decay);
  const Vec beta1 = broadcast(lamb.beta1), rest1 = broadcast(1.0f - lamb.beta1);
  const Vec beta2 = broadcast(lamb.beta2), rest2 = broadcast(1.0f - lamb.beta2);
  const Vec first = broadcast(float(u.scalars.values[Lamb::kFirstCorrection]));
  const Vec root = broadcast(float(u.scalars.values[Lamb::kRootCorrection]));
  const Vec eps = broadcast(lamb.eps);
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec g = load(grads + i, lanes) * scale;
    const Vec m = beta1 * load(first_moment + i, lanes) + rest1 * g;
    const Vec v = beta2 * load(second_moment + i, lanes) + rest2 * (g * g);
    store(first_moment + i, m, lanes);
    store(second_moment + i, v, lanes);
    const Vec decayed = decay * load(params + i, lanes);
    store(grads + i, m * first / (sqrt(v) * root + eps) + decayed, lanes);
  });
}

}  // namespace

void lamb_update(const Lamb& lamb, const RangeUpdate& u) {
  if (u.phase == UpdatePhase::direction) return write_direction(lamb, u);
  float* const params = u.params;
  const float* const directions = u.grads;
  double ratio = 1.0;
  if (u.is_tensor && u.weight_norm > 0 && u.direction_norm > 0)
    ratio = u.weight_norm / u.direction_norm;
  const Vec rate = broadcast(float(double(u.lr) * double(u.lr_scale) * ratio));
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec step = rate * load(directions + i, lanes);
    store(params + i, load(params + i, lanes) - step, lanes);
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
