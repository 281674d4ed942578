// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/exec/step_counters.h"
#include "core/exec/unit_range.h"
#include "core/optim/optimizer.h"
#include "lockstep/optimizer.h"

namespace lockstep {

struct StepOutcome;

/// One phase of an optimizer's step over flat arrays, which have the same offsets. The formula
/// stands with the optimizer (include/lockstep/optimizers); its `lr` and `weight_decay` are not
/// read: the learning rate of a step is the one below, the decay that of the range.
struct OptimizerUpdate {
  Optimizer optimizer;
  UpdatePhase phase = UpdatePhase::update;  ///< one of kernels
  float* params = nullptr;
  float* grads = nullptr;  ///< read; written where the phase writes directions
  /// In the order of state_names(); the others are null.
  std::array<float*, kMaxOptimizerState> state = {};
  /// The new parameters rounded to bf16 (kRoundedFormat), at their offsets; null: not written.
  std::uint16_t* rounded = nullptr;
  float lr = 0, grad_scale = 1;
  std::uint64_t step = 0;  ///< steps before this one, bad ones too
  /// Squared norms by FlatRange::tensor, in device memory; null: the optimizer has no such phase.
  const double* weight_norms = nullptr;
  const double* direction_norms = nullptr;
  /// Elements of whole tensors, as the norms.
  const double* tensor_elems = nullptr;
  /// In the phase of rows, what it updates in the place of ranges; and squared norms of the
  /// direction's rows by UnitRange::norm, in device memory.
  std::span<const UnitRange> rows = {};
  const double* row_norms = nullptr;
  /// In device memory; null: none. Its grad_scale takes the place of the one above, and where it is
  /// bad the update does nothing.
  const StepOutcome* outcome = nullptr;
  /// In device memory; null: none. Its step, lr and scalars take the place of those that follow
  /// from the members above.
  const StepCounters* counters = nullptr;
};

/// average += rate * (value - average), elementwise, fp32.
struct AverageUpdate {
  float* average = nullptr;
  const float* values = nullptr;
  std::int64_t elems = 0;
  float rate = 0;
  /// In device memory; null: none. Where it is bad nothing changes.
  const StepOutcome* outcome = nullptr;
  /// In device memory; null: none. Its average_rate takes the place of `rate`.
  const StepCounters* counters = nullptr;
};

}  // namespace lockstep
