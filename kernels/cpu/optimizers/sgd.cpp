// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/flat.h"
#include "kernels/cpu/optimizers/optimizers.h"

namespace lockstep::cpu {

void sgd_update(const SgdUpdate& u, std::span<const FlatRange> ranges) {
  if (u.outcome && u.outcome->bad) return;
  const float grad_scale = u.outcome ? u.outcome->grad_scale : u.grad_scale;
  const auto loop = LOCKSTEP_CHOOSE(sgd_range);
  for (const FlatRange& range : ranges) {
    const SgdFactors factors{.grad_scale = grad_scale,
                             .weight_decay = range.weight_decay,
                             .momentum = u.momentum,
                             .lr = u.lr * range.lr_scale,
                             .nesterov = u.nesterov,
                             .first = u.first};
    float* momentum = u.momentum_buffer ? u.momentum_buffer + range.offset : nullptr;
    loop(u.params + range.offset, u.grads + range.offset, momentum, range.elems, factors);
  }
}

}  // namespace lockstep::cpu
