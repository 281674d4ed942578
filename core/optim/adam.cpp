// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizers/adam.h"

#include <cmath>

#include "core/optim/optimizer_hyper_parameter.h"
#include "core/optim/step_scalars.h"
#include "core/optim/update_phase.h"

namespace lockstep {

std::vector<OptimizerHyperParameter> Adam::hyper_parameters() {
  using Range = OptimizerHyperParameter::Range;
  return {{"lr", &lr, "learning rate"},
          {"beta1", &beta1, "decay rate of the first moment", Range::below_one},
          {"beta2", &beta2, "decay rate of the second moment", Range::below_one},
          {"eps", &eps, "epsilon, added to the denominator", Range::positive},
          {"weight_decay", &weight_decay, "weight decay, added to the gradient"}};
}

void Adam::validate() const {}

std::vector<std::string_view> Adam::state_names() const { return {"exp_avg", "exp_avg_sq"}; }

StepScalars Adam::step_scalars(std::uint64_t step) const {
  const auto t = double(step + 1);
  StepScalars scalars;
  scalars.values[kFirstCorrection] = 1.0 - std::pow(double(beta1), t);
  scalars.values[kRootCorrection] = 1.0 / std::sqrt(1.0 - std::pow(double(beta2), t));
  return scalars;
}

std::vector<UpdatePhase> Adam::phases() const { return {UpdatePhase::update}; }

}  // namespace lockstep
