// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/exec/backend.h"

namespace lockstep::test {

/// An optimizer's arrays in double precision.
struct ReferenceState {
  std::vector<double> params, first_moment, second_moment;
};

/// One step of the formulas in core/exec/backend.h; hyperparameters come from `update`, whose
/// pointers are not used. `use_momentum` false: no momentum buffer.
void sgd_reference(ReferenceState& state,
                   const std::vector<double>& grads,
                   const SgdUpdate& update,
                   bool use_momentum,
                   const std::vector<FlatRange>& ranges);
void adamw_reference(ReferenceState& state,
                     const std::vector<double>& grads,
                     const AdamwUpdate& update,
                     const std::vector<FlatRange>& ranges);

}  // namespace lockstep::test
