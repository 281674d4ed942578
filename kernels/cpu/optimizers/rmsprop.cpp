// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

template <bool centered, bool has_momentum>
void update_range(const RmsProp& rmsprop, const RangeUpdate& u) {
  float *const params = u.params, *const square_avg = u.state[0], *const grad_avg = u.state[1],
               *const momentum_buffer = u.state[centered ? 2 : 1];
  const float* const grads = u.grads;
  const Vec scale = broadcast(u.grad_scale), decay = broadcast(u.weight_decay);
  const Vec alpha = broadcast(rmsprop.alpha), rest = broadcast(1.0f - rmsprop.alpha);
  const Vec eps = broadcast(rmsprop.eps), momentum = broadcast(rmsprop.momentum);
  const Vec lr = broadcast(u.lr * u.lr_scale);
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec p = load(params + i, lanes);
    const Vec g = load(grads + i, lanes) * scale + decay * p;
    const Vec v = alpha * load(square_avg + i, lanes) + rest * (g * g);
    store(square_avg + i, v, lanes);
    Vec variance = v;
    if constexpr (centered) {
      const Vec a = alpha * load(grad_avg + i, lanes) + rest * g;
      store(grad_avg + i, a, lanes);
      // NaN stays NaN: max() gives its second operand then.
      variance = max(zero(), v - a * a);
    }
    Vec direction = g / (sqrt(variance) + eps);
    if constexpr (has_momentum) {
      direction = momentum * load(momentum_buffer + i, lanes) + direction;
      store(momentum_buffer + i, direction, lanes);
    }
    store(params + i, p - lr * direction, lanes);
  });
}

}  // namespace

void rmsprop_update(const RmsProp& rmsprop, const RangeUpdate& u) {
  const auto run =
      rmsprop.centered
          ? (rmsprop.momentum > 0 ? update_range<true, true> : update_range<true, false>)
          : (rmsprop.momentum > 0 ? update_range<false, true> : update_range<false, false>);
  run(rmsprop, u);
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
