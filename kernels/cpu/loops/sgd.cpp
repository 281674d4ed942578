// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/flat.h"
#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

enum class Momentum { none, first, running };

template <Momentum kind, bool nesterov>
void sgd(float* params,
         const float* grads,
         float* momentum_buffer,
         std::int64_t elems,
         const SgdFactors& factors) {
  const Vec scale = broadcast(factors.grad_scale), decay = broadcast(factors.weight_decay);
  const Vec momentum = broadcast(factors.momentum), lr = broadcast(factors.lr);
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
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

void sgd_range(float* params,
               const float* grads,
               float* momentum,
               std::int64_t elems,
               const SgdFactors& factors) {
  const auto run = [&](auto loop) { loop(params, grads, momentum, elems, factors); };
  if (!momentum) return run(sgd<Momentum::none, false>);
  if (factors.first)
    return run(factors.nesterov ? sgd<Momentum::first, true> : sgd<Momentum::first, false>);
  run(factors.nesterov ? sgd<Momentum::running, true> : sgd<Momentum::running, false>);
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
