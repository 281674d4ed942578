// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/optim/adamw.h"
#include "core/optim/sgd.h"

/// Every optimizer: OPTIMIZER(class, name). Each line gives an alternative of Optimizer, a name for
/// the command line and for checkpoints, and for each backend the declaration of a kernel, whose
/// absence is a link error. Its files have the name: core/optim/<name>.h and .cpp,
/// kernels/cpu/optimizers/<name>.cpp, kernels/cuda/optimizers/<name>.cu.
#define LOCKSTEP_OPTIMIZERS(OPTIMIZER) \
  OPTIMIZER(Sgd, sgd)                  \
  OPTIMIZER(AdamW, adamw)

namespace lockstep {

/// The most arrays of state that one of them may keep.
inline constexpr int kMaxOptimizerState = 4;

}  // namespace lockstep
