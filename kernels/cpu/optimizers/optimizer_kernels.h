// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/optim/optimizer.h"
#include "core/optim/step_scalars.h"
#include "kernels/cpu/isa.h"
#include "lockstep/optimizer.h"

/// Optimizers' kernels: <name>_update() in <name>.cpp of this folder, which is compiled once for
/// each instruction set as the loops are (isa.h). A missing one is a link error.
namespace lockstep::cpu {

/// One range of an OptimizerUpdate (core/exec). Pointers are those of the range's first element,
/// and may be unaligned. An element's bits depend on its own values and the norms of its tensor or
/// row.
struct RangeUpdate {
  float* params = nullptr;
  float* grads = nullptr;
  UpdatePhase phase = UpdatePhase::update;
  float* state[kMaxOptimizerState] = {};  ///< in the order of state_names()
  std::int64_t elems = 0;
  float grad_scale = 1, weight_decay = 0;
  float lr = 0, lr_scale = 1;  ///< of the step, and of the range
  std::uint64_t step = 0;      ///< steps before this one
  StepScalars scalars = {};    ///< step_scalars(step)
  bool is_tensor = false;      ///< FlatRange::tensor is one: norms are given
  double weight_norm = 0, direction_norm = 0;
  double tensor_elems = 0;  ///< of the whole tensor
  /// In the phase of rows, of which the range is one or a part: the direction's squared norm, and
  /// elements of the whole row.
  double row_squares = 0;
  std::int64_t row_elems = 0;
};

#define LOCKSTEP_OPTIMIZER_KERNEL(Type, name) \
  LOCKSTEP_LOOP(void, name##_update, (const Type& optimizer, const RangeUpdate& update));
LOCKSTEP_OPTIMIZERS(LOCKSTEP_OPTIMIZER_KERNEL)
#undef LOCKSTEP_OPTIMIZER_KERNEL

}  // namespace lockstep::cpu
