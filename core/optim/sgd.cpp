// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizers/sgd.h"

#include "core/optim/optimizer_hyper_parameter.h"
#include "core/optim/step_scalars.h"
#include "core/optim/update_phase.h"
#include "lockstep/error.h"

namespace lockstep {

std::vector<OptimizerHyperParameter> Sgd::hyper_parameters() {
  return {{"lr", &lr, "learning rate"},
          {"momentum", &momentum, "momentum", OptimizerHyperParameter::Range::below_one},
          {"nesterov", &nesterov, "Nesterov momentum"},
          {"weight_decay", &weight_decay, "weight decay, added to the gradient"}};
}

void Sgd::validate() const {
  if (nesterov && momentum == 0.0f)
    throw ConfigError("optimizer sgd: `nesterov` needs `momentum` above 0, got 0",
                      "set `momentum`, as 0.9, or leave `nesterov` off");
}

std::vector<std::string_view> Sgd::state_names() const {
  if (momentum == 0.0f) return {};
  return {"momentum_buffer"};
}

StepScalars Sgd::step_scalars(std::uint64_t /*step*/) const { return {}; }

std::vector<UpdatePhase> Sgd::phases() const { return {UpdatePhase::update}; }

}  // namespace lockstep
