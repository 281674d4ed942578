// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/rank_context.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/exchange/gradient_exchange.h"

namespace lockstep {

struct ReplicaParts;

/// Note [Communicator warm-up]. NCCL (2.22 and later) connects the ranks of a communicator when
/// they first use it for a kind of collective, and allocates device memory then. A run that fills
/// its devices would fail in its first step, or in the first step of another kind. So all
/// collectives of the run are done once before, with zeros: by bytes_of_collectives() on temporary
/// communicators, before the memory headroom is read, and by warm_up_collectives() on the run's
/// own, when everything else is reserved. Where collectives are not stream-ordered, both do
/// nothing.

/// One collective of each kind that an exchange uses, over all ranks, of a few elements. Between
/// pairs of ranks only where they exchange: on two levels, with N ranks of which R share a host,
/// each with R - 1 on its host and N / R - 1 of its place on others, instead of all N - 1, to each
/// of which NCCL connects and gives memory. What a sharded optimizer brings from owners to those
/// that write a checkpoint goes between any two: bytes_of_collectives() connects them. Collective.
/// Throws EnvironmentError: ranks have joined the network, but a collective fails. OutOfMemory.
void warm_up_connections(RankContext& context);

/// Runs the collectives of a step of a whole batch and of an evaluation, on a replica's exchanges
/// and on `group` (null: none) of its batch norm. Gradients, metrics and `weights` are zeros, and
/// stay so: initial weights come afterwards, or each rank would have the owners'. Bytes sent are
/// not counted. Collective. Throws EnvironmentError: a collective fails. OutOfMemory.
void warm_up_collectives(RankContext& context,
                         ReplicaParts& parts,
                         float* weights,
                         const BatchPlan& batch,
                         Communicator* group);

/// The same with communicators and memory of its own, which it frees. Returns the bytes that those
/// communicators held, and that the run's own will hold; memory that the library keeps is missing
/// from the device's free memory. Uses a smaller bucket on a device with little free memory.
/// Returns 0 without a warm-up where ranks have different options. Collective. Throws
/// EnvironmentError as warm_up_collectives().
std::uint64_t bytes_of_collectives(RankContext& context,
                                   const TrainOptions& options,
                                   const BatchPlan& batch);

}  // namespace lockstep
