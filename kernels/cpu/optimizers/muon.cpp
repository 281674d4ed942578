// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/optimizers/matrix_updates.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

void muon_update(const Muon& muon, const RangeUpdate& u) {
  if (u.phase == UpdatePhase::tensor_direction) return write_nesterov_direction(muon.momentum, u);
  if (u.phase == UpdatePhase::normalize) return normalize_direction(Muon::kNormEps, u);
  if (u.phase == UpdatePhase::tensor_update)
    return move_along_direction(double(u.lr) * double(u.lr_scale), u);
  update_others(muon, u);
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
