// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/program.h"
#include "parallel/train_options.h"

namespace lockstep {

/// What shares a rank's device with a training program.
struct BesideTraining {
  std::size_t exchange_bytes = 0;       ///< see exchange_memory()
  const Program* evaluation = nullptr;  ///< that uses the same arena; null: none
};

/// A rank's memory on its device with the training program `training`: parameters, gradients,
/// optimizer state, pending sums, packed copies, the arena, and buffers of the exchange.
std::size_t training_bytes(const Program& training,
                           const FlatSpace& space,
                           const Optimizer& optimizer,
                           const BesideTraining& beside);

/// The least training_bytes() of the recomputation that `options` allows, whatever its limit.
std::size_t least_training_bytes(const Graph& graph,
                                 Backend& backend,
                                 const FlatSpace& space,
                                 MemoryReuse reuse,
                                 const TrainOptions& options,
                                 const BesideTraining& beside);

/// Compiles a training graph with the recomputation that `options` asks for: none, all, or the
/// cheapest whose training_bytes() fit options.memory_limit. `choice` is the number of the choice
/// (see recompute_choices) to take; -1: find it, and set it.
/// Throws OutOfMemory where nothing allowed fits, with what would be needed.
std::unique_ptr<Program> compile_within_limit(Graph graph,
                                              Backend& backend,
                                              const FlatSpace& space,
                                              MemoryReuse reuse,
                                              const TrainOptions& options,
                                              const BesideTraining& beside,
                                              int& choice);

}  // namespace lockstep
