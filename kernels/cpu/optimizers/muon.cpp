// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

void write_direction(const Muon& muon, const RangeUpdate& u) {
  float *const grads = u.grads, *const momentum_buffer = u.state[0];
  const Vec scale = broadcast(u.grad_scale), momentum = broadcast(muon.momentum);
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec g = load(grads + i, lanes) * scale;
    const Vec m = momentum * load(momentum_buffer + i, lanes) + g;
    store(momentum_buffer + i, m, lanes);
    store(grads + i, g + momentum * m, lanes);
  });
}

void normalize(const RangeUpdate& u) {
  float* const directions = u.grads;
  const Vec inverse = broadcast(float(1.0 / (u.direction_norm + Muon::kNormEps)));
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    store(directions + i, load(directions + i, lanes) * inverse, lanes);
  });
}

void update_matrix(const RangeUpdate& u) {
  float* const params = u.params;
  const float* const directions = u.grads;
  const double lr = double(u.lr) * double(u.lr_scale);
  const Vec keep = broadcast(float(1.0 - lr * double(u.weight_decay))), step = broadcast(float(lr));
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec p = load(params + i, lanes) * keep;
    store(params + i, p - step * load(directions + i, lanes), lanes);
  });
}

void update_other(const Muon& muon, const RangeUpdate& u) {
  float *const params = u.params, *const first_moment = u.state[0],
               *const second_moment = u.state[1];
  const float* const grads = u.grads;
  const double lr = double(u.lr) * double(u.lr_scale);
  const Vec scale = broadcast(u.grad_scale);
  const Vec keep = broadcast(float(1.0 - lr * double(u.weight_decay)));
  const Vec beta1 = broadcast(muon.beta1), rest1 = broadcast(1.0f - muon.beta1);
  const Vec beta2 = broadcast(muon.beta2), rest2 = broadcast(1.0f - muon.beta2);
  const Vec step = broadcast(float(lr / u.scalars.values[Muon::kFirstCorrection]));
  const Vec correction = broadcast(float(u.scalars.values[Muon::kRootCorrection]));
  const Vec eps = broadcast(muon.eps);
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

}  // namespace

void muon_update(const Muon& muon, const RangeUpdate& u) {
  if (u.phase == UpdatePhase::tensor_direction) return write_direction(muon, u);
  if (u.phase == UpdatePhase::normalize) return normalize(u);
  if (u.phase == UpdatePhase::tensor_update) return update_matrix(u);
  update_other(muon, u);
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
