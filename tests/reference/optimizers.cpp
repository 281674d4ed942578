// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/optimizers.h"

#include <cmath>

namespace lockstep::test {

void sgd_reference(ReferenceState& state,
                   const std::vector<double>& grads,
                   const OptimizerUpdate& u,
                   const std::vector<FlatRange>& ranges) {
  const Sgd& sgd = std::get<Sgd>(u.optimizer);
  for (const FlatRange& range : ranges)
    for (std::int64_t j = range.offset; j < range.offset + range.elems; ++j) {
      const std::size_t i = std::size_t(j);
      double& p = state.params[i];
      const double g = grads[i] * u.grad_scale + double(range.weight_decay) * p;
      double direction = g;
      if (sgd.momentum > 0) {
        double& m = state.first_moment[i];
        m = u.step == 0 ? g : double(sgd.momentum) * m + g;
        direction = sgd.nesterov ? g + double(sgd.momentum) * m : m;
      }
      p -= double(u.lr) * double(range.lr_scale) * direction;
    }
}

void adamw_reference(ReferenceState& state,
                     const std::vector<double>& grads,
                     const OptimizerUpdate& u,
                     const std::vector<FlatRange>& ranges) {
  const AdamW& adamw = std::get<AdamW>(u.optimizer);
  const double beta1 = double(adamw.beta1), beta2 = double(adamw.beta2);
  const double correction1 = 1 - std::pow(beta1, double(u.step + 1));
  const double correction2 = 1 - std::pow(beta2, double(u.step + 1));
  for (const FlatRange& range : ranges)
    for (std::int64_t j = range.offset; j < range.offset + range.elems; ++j) {
      const std::size_t i = std::size_t(j);
      const double g = grads[i] * double(u.grad_scale);
      const double lr = double(u.lr) * double(range.lr_scale);
      double &p = state.params[i], &m = state.first_moment[i], &v = state.second_moment[i];
      p *= 1 - lr * double(range.weight_decay);
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      p -= lr / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + double(adamw.eps));
    }
}

}  // namespace lockstep::test
