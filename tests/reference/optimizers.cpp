// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/optimizers.h"

#include <cmath>

namespace lockstep::test {

void sgd_reference(ReferenceState& state,
                   const std::vector<double>& grads,
                   const SgdUpdate& u,
                   bool use_momentum,
                   const std::vector<FlatRange>& ranges) {
  for (const FlatRange& range : ranges)
    for (std::int64_t j = range.offset; j < range.offset + range.elems; ++j) {
      const std::size_t i = std::size_t(j);
      double& p = state.params[i];
      const double g = grads[i] * u.grad_scale + double(range.weight_decay) * p;
      double direction = g;
      if (use_momentum) {
        double& m = state.first_moment[i];
        m = u.first ? g : double(u.momentum) * m + g;
        direction = u.nesterov ? g + double(u.momentum) * m : m;
      }
      p -= double(u.lr) * double(range.lr_scale) * direction;
    }
}

void adamw_reference(ReferenceState& state,
                     const std::vector<double>& grads,
                     const AdamwUpdate& u,
                     const std::vector<FlatRange>& ranges) {
  const double correction1 = 1 - std::pow(double(u.beta1), double(u.t));
  const double correction2 = 1 - std::pow(double(u.beta2), double(u.t));
  for (const FlatRange& range : ranges)
    for (std::int64_t j = range.offset; j < range.offset + range.elems; ++j) {
      const std::size_t i = std::size_t(j);
      const double g = grads[i] * double(u.grad_scale);
      const double lr = double(u.lr) * double(range.lr_scale);
      double &p = state.params[i], &m = state.first_moment[i], &v = state.second_moment[i];
      p *= 1 - lr * double(range.weight_decay);
      m = double(u.beta1) * m + (1 - double(u.beta1)) * g;
      v = double(u.beta2) * v + (1 - double(u.beta2)) * g * g;
      p -= lr / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + double(u.eps));
    }
}

}  // namespace lockstep::test
