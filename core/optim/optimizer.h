// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/optim/optimizer_hyper_parameter.h"
#include "core/optim/step_scalars.h"
#include "core/optim/update_phase.h"
#include "lockstep/optimizer.h"

namespace lockstep {

/// Note [What an optimizer defines]
///
/// An optimizer is a plain struct of its hyper-parameters, `lr` and `weight_decay` among them,
/// whose comment states the update of one element. In addition it has:
///   kAdaptive           whether gradients are divided by their own size, so that the learning rate
///                       grows with the root of the batch (Malladi et al. 2022, "On the SDEs and
///                       Scaling Rules for Adaptive Gradient Algorithms"), otherwise with the batch
///                       (Goyal et al. 2017, "Accurate, Large Minibatch SGD")
///   hyper_parameters()  each member with its range; validate(), to_string() and the command line
///                       follow from it
///   validate()          throws ConfigError for what ranges alone do not say
///   state_names()       its fp32 arrays of the parameters' size, zero at the start, at most
///                       kMaxOptimizerState, by the names that checkpoints have for them
///                       (PyTorch's)
///   step_scalars()      numbers that depend on the step alone; `step` counts steps from 0, also
///                       bad ones
///   phases()            what an update consists of: Note [Phases of an update]
/// Kernels do the arithmetic: one for each backend, listed in lockstep/optimizer.h.

/// The most arrays of state that one of them may keep.
inline constexpr int kMaxOptimizerState = 4;

/// Of the optimizer that is held, in their order; `value` points into `optimizer`.
std::vector<OptimizerHyperParameter> hyper_parameters(Optimizer& optimizer);
/// Whether gradients are divided by their own size.
bool is_adaptive(const Optimizer& optimizer);
StepScalars step_scalars(const Optimizer& optimizer, std::uint64_t step);
std::vector<std::string_view> state_names(const Optimizer& optimizer);
/// In their order.
std::vector<UpdatePhase> update_phases(const Optimizer& optimizer);
/// Whether `phase` is one of them.
bool has_phase(const Optimizer& optimizer, UpdatePhase phase);
/// Of state_names(), how many there are.
int state_arrays(const Optimizer& optimizer);

/// Whether a run with the optimizer `now` can go on from the state of the optimizer `then`, both
/// texts of to_string(): the same optimizer with the same arrays. No, where one is unknown here.
bool have_same_state(std::string_view then, std::string_view now);

}  // namespace lockstep
