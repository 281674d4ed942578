// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizers/normuon.h"

#include <cmath>

#include "core/optim/optimizer_hyper_parameter.h"
#include "core/optim/step_scalars.h"
#include "core/optim/update_phase.h"

namespace lockstep {

std::vector<OptimizerHyperParameter> NorMuon::hyper_parameters() {
  using Range = OptimizerHyperParameter::Range;
  return {{"lr", &lr, "learning rate"},
          {"momentum", &momentum, "Nesterov momentum of hidden matrices", Range::below_one},
          {"beta1", &beta1, "decay rate of the first moment of other parameters", Range::below_one},
          {"beta2",
           &beta2,
           "decay rate of the second moment of the same and of matrices' rows",
           Range::below_one},
          {"eps", &eps, "epsilon, added to the denominators of both", Range::positive},
          {"weight_decay", &weight_decay, "weight decay, decoupled from the gradient"}};
}

void NorMuon::validate() const {}

std::vector<std::string_view> NorMuon::state_names() const {
  return {"momentum_buffer", "exp_avg_sq"};
}

StepScalars NorMuon::step_scalars(std::uint64_t step) const {
  const auto t = double(step + 1);
  StepScalars scalars;
  scalars.values[kFirstCorrection] = 1.0 - std::pow(double(beta1), t);
  scalars.values[kRootCorrection] = 1.0 / std::sqrt(1.0 - std::pow(double(beta2), t));
  return scalars;
}

std::vector<UpdatePhase> NorMuon::phases() const {
  return {UpdatePhase::tensor_direction,
          UpdatePhase::direction_norms,
          UpdatePhase::normalize,
          UpdatePhase::orthogonalize,
          UpdatePhase::normalize_rows,
          UpdatePhase::direction_norms,
          UpdatePhase::tensor_update,
          UpdatePhase::update_others};
}

}  // namespace lockstep
