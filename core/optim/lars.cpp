// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizers/lars.h"

#include "core/optim/optimizer_hyper_parameter.h"
#include "core/optim/step_scalars.h"
#include "core/optim/update_phase.h"

namespace lockstep {

std::vector<OptimizerHyperParameter> Lars::hyper_parameters() {
  using Range = OptimizerHyperParameter::Range;
  return {{"lr", &lr, "learning rate"},
          {"momentum", &momentum, "momentum", Range::below_one},
          {"trust_coefficient",
           &trust_coefficient,
           "size of a layer's update, over that of its weights, at a learning rate of 1",
           Range::positive},
          {"weight_decay", &weight_decay, "weight decay, added to the gradient"}};
}

void Lars::validate() const {}

std::vector<std::string_view> Lars::state_names() const { return {"momentum_buffer"}; }

StepScalars Lars::step_scalars(std::uint64_t /*step*/) const { return {}; }

std::vector<UpdatePhase> Lars::phases() const {
  return {UpdatePhase::weight_norms, UpdatePhase::direction_norms, UpdatePhase::update};
}

}  // namespace lockstep
