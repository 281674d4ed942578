// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizers/adamw.h"

#include <cmath>

#include "core/optim/optimizer_hyper_parameter.h"
#include "core/optim/step_scalars.h"
#include "core/optim/update_phase.h"

namespace lockstep {

std::vector<OptimizerHyperParameter> AdamW::hyper_parameters() {
  using Range = OptimizerHyperParameter::Range;
  return {{"lr", &lr, "learning rate"},
          {"beta1", &beta1, "decay rate of the first moment", Range::below_one},
          {"beta2", &beta2, "decay rate of the second moment", Range::below_one},
          {"eps", &eps, "epsilon, added to the denominator", Range::positive},
          {"weight_decay", &weight_decay, "weight decay, decoupled from the gradient"}};
}

void AdamW::validate() const {}

std::vector<std::string_view> AdamW::state_names() const { return {"exp_avg", "exp_avg_sq"}; }

StepScalars AdamW::step_scalars(std::uint64_t step) const {
  const auto t = double(step + 1);
  StepScalars scalars;
  scalars.values[kFirstCorrection] = 1.0 - std::pow(double(beta1), t);
  scalars.values[kRootCorrection] = 1.0 / std::sqrt(1.0 - std::pow(double(beta2), t));
  return scalars;
}

std::vector<UpdatePhase> AdamW::phases() const { return {UpdatePhase::update}; }

}  // namespace lockstep
