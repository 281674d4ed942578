// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/rank_context.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/exchange/gradient_exchange.h"

namespace lockstep {

struct ReplicaParts;

/// Note [Trial of collectives]. NCCL connects ranks of a communicator when they first use it in
/// some way (2.22 and later), and takes memory of their devices for that. A training that fills its
/// devices would then fail in its first step, or in the first of another kind. So all that it asks
/// of other ranks is done once before, with zeros: by warm_up_collectives() on its own
/// communicators, when everything else is reserved, and by bytes_of_collectives() on such ones,
/// before anybody looks for the room that is left. Where collectives do not stand in stream order
/// neither does anything.

/// One collective of each kind that an exchange has, over all ranks, of a few numbers. Collective.
/// Throws EnvironmentError: the network was joined, but does not reach; OutOfMemory.
void warm_up_connections(RankContext& context);

/// Has a replica's exchanges, and `group` (null: none) of its batch norm, do all that a step of a
/// whole batch and an evaluation have them do. Gradients and metrics are zeros, and stay so; what
/// is sent does not count. Collective. Throws EnvironmentError: the network does not reach.
void warm_up_collectives(RankContext& context,
                         ReplicaParts& parts,
                         const BatchPlan& batch,
                         Communicator* group);

/// The same with communicators and memory of its own, which are given back. Returns the bytes that
/// those communicators had taken, and the training's own will take again; what the library keeps is
/// gone from the device's free memory. On a device with little memory, with less of it; where ranks
/// have different options, not at all. Collective. Throws EnvironmentError as
/// warm_up_collectives(), ConfigError as plan_batch().
std::uint64_t bytes_of_collectives(RankContext& context, const TrainOptions& options);

}  // namespace lockstep
