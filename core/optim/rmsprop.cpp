// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizers/rmsprop.h"

#include "core/optim/optimizer_hyper_parameter.h"
#include "core/optim/step_scalars.h"
#include "core/optim/update_phase.h"

namespace lockstep {

std::vector<OptimizerHyperParameter> RmsProp::hyper_parameters() {
  using Range = OptimizerHyperParameter::Range;
  return {{"lr", &lr, "learning rate"},
          {"alpha", &alpha, "decay rate of the squared gradient", Range::below_one},
          {"eps", &eps, "epsilon, added to the denominator", Range::positive},
          {"momentum", &momentum, "momentum", Range::below_one},
          {"centered", &centered, "divide by an estimate of the gradient's deviation"},
          {"weight_decay", &weight_decay, "weight decay, added to the gradient"}};
}

void RmsProp::validate() const {}

std::vector<std::string_view> RmsProp::state_names() const {
  std::vector<std::string_view> names{"square_avg"};
  if (centered) names.emplace_back("grad_avg");
  if (momentum > 0.0f) names.emplace_back("momentum_buffer");
  return names;
}

StepScalars RmsProp::step_scalars(std::uint64_t /*step*/) const { return {}; }

std::vector<UpdatePhase> RmsProp::phases() const { return {UpdatePhase::update}; }

}  // namespace lockstep
