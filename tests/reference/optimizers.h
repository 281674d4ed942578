// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/exec/backend.h"

namespace lockstep::test {

/// An optimizer's arrays in double precision.
struct ReferenceState {
  std::vector<double> params, first_moment, second_moment;
};

/// One step of the formula that stands with the optimizer (core/optim). Of `update`, whose
/// optimizer is the function's, pointers are not used.
void sgd_reference(ReferenceState& state,
                   const std::vector<double>& grads,
                   const OptimizerUpdate& update,
                   const std::vector<FlatRange>& ranges);
void adamw_reference(ReferenceState& state,
                     const std::vector<double>& grads,
                     const OptimizerUpdate& update,
                     const std::vector<FlatRange>& ranges);

}  // namespace lockstep::test
