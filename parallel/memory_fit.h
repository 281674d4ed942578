// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/program.h"
#include "parallel/train_options.h"

namespace lockstep {

/// Device memory of one training program: parameters, gradients, optimizer state, packed copies,
/// activations and workspace. Pending sums, communication buffers and the loader come on top.
std::size_t training_bytes(const Program& program,
                           const FlatSpace& space,
                           const Optimizer& optimizer);

/// The least training_bytes() of the recomputation that `options` allows, whatever its limit.
std::size_t least_training_bytes(const Graph& graph,
                                 Backend& backend,
                                 const FlatSpace& space,
                                 MemoryReuse reuse,
                                 const TrainOptions& options);

/// Compiles a training graph with the recomputation that `options` asks for: none, all, or the
/// cheapest whose training_bytes fit options.memory_limit. `choice` is the number of the choice
/// (see recompute_choices) to take; -1: find it, and set it.
/// Throws OutOfMemory where nothing allowed fits, with what would be needed.
std::unique_ptr<Program> compile_within_limit(Graph graph,
                                              Backend& backend,
                                              const FlatSpace& space,
                                              MemoryReuse reuse,
                                              const TrainOptions& options,
                                              int& choice);

}  // namespace lockstep
