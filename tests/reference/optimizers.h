// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "core/exec/backend.h"

namespace lockstep::test {

/// An optimizer's arrays in double precision; state in the order of state_names().
struct ReferenceState {
  std::vector<double> params;
  std::array<std::vector<double>, kMaxOptimizerState> state;
};

/// Rows of every tensor with a norm, as a matrix; its elements are a multiple.
inline constexpr std::int64_t kReferenceRows = 5;

/// One step of the formula that stands with the optimizer (include/lockstep/optimizers), but for
/// `orthogonalize`, in the place of which directions stay as they are. Ranges with the same
/// FlatRange::tensor are one tensor. Of `update`, pointers are not used.
void optimizer_reference(ReferenceState& state,
                         const std::vector<double>& grads,
                         const OptimizerUpdate& update,
                         const std::vector<FlatRange>& ranges);

}  // namespace lockstep::test
