// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/optimizers/matrix_updates.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

void normalize_row(const NorMuon& normuon, const RangeUpdate& u) {
  float *const directions = u.grads, *const second_moment = u.state[1];
  const Vec beta2 = broadcast(normuon.beta2), eps = broadcast(normuon.eps);
  const Vec added = broadcast((1.0f - normuon.beta2) * float(u.row_squares / double(u.row_elems)));
  for_each_vec(u.elems, [=](std::int64_t i, auto lanes) {
    const Vec v = beta2 * load(second_moment + i, lanes) + added;
    store(second_moment + i, v, lanes);
    store(directions + i, load(directions + i, lanes) / (sqrt(v) + eps), lanes);
  });
}

/// So that the root mean square of a whole matrix's update is kUpdateScale.
double matrix_rate(const RangeUpdate& u) {
  const double lr = double(u.lr) * double(u.lr_scale);
  return lr * NorMuon::kUpdateScale * __builtin_sqrt(u.tensor_elems) /
         (u.direction_norm + NorMuon::kNormEps);
}

}  // namespace

void normuon_update(const NorMuon& normuon, const RangeUpdate& u) {
  if (u.phase == UpdatePhase::tensor_direction)
    return write_nesterov_direction(normuon.momentum, u);
  if (u.phase == UpdatePhase::normalize) return normalize_direction(NorMuon::kNormEps, u);
  if (u.phase == UpdatePhase::normalize_rows) return normalize_row(normuon, u);
  if (u.phase == UpdatePhase::tensor_update) return move_along_direction(matrix_rate(u), u);
  update_others(normuon, u);
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
