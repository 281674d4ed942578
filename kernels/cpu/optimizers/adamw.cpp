// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cpu/flat.h"
#include "kernels/cpu/optimizers/optimizers.h"

namespace lockstep::cpu {

void adamw_update(const AdamwUpdate& u, std::span<const FlatRange> ranges) {
  if (u.outcome && u.outcome->bad) return;
  const float grad_scale = u.outcome ? u.outcome->grad_scale : u.grad_scale;
  const auto loop = LOCKSTEP_CHOOSE(adamw_range);
  const double correction1 = 1.0 - std::pow(double(u.beta1), double(u.t));
  const double correction2 = 1.0 - std::pow(double(u.beta2), double(u.t));
  for (const FlatRange& range : ranges) {
    const double lr = double(u.lr) * double(range.lr_scale);
    const AdamwFactors factors{.grad_scale = grad_scale,
                               .keep = float(1.0 - lr * double(range.weight_decay)),
                               .beta1 = u.beta1,
                               .beta2 = u.beta2,
                               .step_size = float(lr / correction1),
                               .inverse_root_correction = float(1.0 / std::sqrt(correction2)),
                               .eps = u.eps};
    loop(u.params + range.offset,
         u.grads + range.offset,
         u.first_moment + range.offset,
         u.second_moment + range.offset,
         range.elems,
         factors);
  }
}

}  // namespace lockstep::cpu
