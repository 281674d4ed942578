// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

enum class Momentum { none, first, running };

template <Momentum kind, bool nesterov>
void update_range(const Sgd& sgd, const RangeUpdate& u) {
  float *const params = u.params, *const momentum_buffer = u.state[0];
  const float* const grads = u.grads;
  const Vec scale = broadcast(u.grad_scale), decay = broadcast(u.weight_decay);
  const Vec momentum = broadcast(sgd.momentum), lr = broadcast(u.lr * u.lr_scale);
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec p = load(params + i, lanes);
    const Vec g = load(grads + i, lanes) * scale + decay * p;
    Vec direction = g;
    if constexpr (kind != Momentum::none) {
      Vec m = g;
      if constexpr (kind == Momentum::running) m = momentum * load(momentum_buffer + i, lanes) + g;
      store(momentum_buffer + i, m, lanes);
      direction = nesterov ? g + momentum * m : m;
    }
    store(params + i, p - lr * direction, lanes);
  });
}

}  // namespace

void sgd_update(const Sgd& sgd, const RangeUpdate& u) {
  if (sgd.momentum == 0.0f) return update_range<Momentum::none, false>(sgd, u);
  const auto run = sgd.nesterov ? (u.step == 0 ? update_range<Momentum::first, true>
                                               : update_range<Momentum::running, true>)
                                : (u.step == 0 ? update_range<Momentum::first, false>
                                               : update_range<Momentum::running, false>);
  run(sgd, u);
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
