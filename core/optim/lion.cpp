// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizers/lion.h"

#include "core/optim/optimizer_hyper_parameter.h"
#include "core/optim/step_scalars.h"
#include "core/optim/update_phase.h"

namespace lockstep {

std::vector<OptimizerHyperParameter> Lion::hyper_parameters() {
  using Range = OptimizerHyperParameter::Range;
  return {{"lr", &lr, "learning rate"},
          {"beta1", &beta1, "share of the momentum in the update", Range::below_one},
          {"beta2", &beta2, "decay rate of the momentum", Range::below_one},
          {"weight_decay", &weight_decay, "weight decay, decoupled from the gradient"}};
}

void Lion::validate() const {}

std::vector<std::string_view> Lion::state_names() const { return {"exp_avg"}; }

StepScalars Lion::step_scalars(std::uint64_t /*step*/) const { return {}; }

std::vector<UpdatePhase> Lion::phases() const { return {UpdatePhase::update}; }

}  // namespace lockstep
