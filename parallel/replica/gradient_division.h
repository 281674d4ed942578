// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"
#include "core/plan/gradient_space.h"
#include "lockstep/batch_plan.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// Where the gradients of a training lie. With Sharding::gradients divided, Note [Gradient window],
/// unless GradientSpace::why_whole(): a shard has several micro-batches, which add up in place; the
/// exchange begins after backward; batch norm spans several ranks, of which some write zeros once
/// others have exchanged; the optimizer works on whole matrices; or as GradientSpace says.
/// `graph`: of training, that `space` was laid out for.
GradientSpace divide_gradients(const Graph& graph,
                               const FlatSpace& space,
                               const TrainOptions& options,
                               const BatchPlan& batch,
                               const DeviceTraits& device);

}  // namespace lockstep
