// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/exec/program.h"
#include "parallel/train_options.h"

namespace lockstep {

/// What a rank reserves on its device for `programs`, which share an arena: parameters, gradients,
/// optimizer state, packed copies and the arena.
std::size_t training_bytes(std::span<const Program* const> programs,
                           const FlatSpace& space,
                           const Optimizer& optimizer);

/// What shares the device with a training program.
struct BesideTraining {
  std::size_t exchange_bytes = 0;       ///< see exchange_memory()
  const Program* evaluation = nullptr;  ///< that uses the same arena; null: none
};

/// The least bytes on the device of the recomputation that `options` allows, whatever its limit.
std::size_t least_training_bytes(const Graph& graph,
                                 Backend& backend,
                                 const FlatSpace& space,
                                 MemoryReuse reuse,
                                 const TrainOptions& options,
                                 const BesideTraining& beside);

/// Which of recompute_choices() all training programs of a run take.
struct RecomputeNumber {
  int first = 0;    ///< that may be taken
  int number = -1;  ///< -1: to be found
  bool is_last = false;
};

/// Compiles a training graph with the recomputation that `options` asks for: none, all, or the
/// cheapest, from choice.first on, with which the bytes on the device fit options.memory_limit.
/// Where choice.number is known, that one; else it is set.
/// Throws OutOfMemory where nothing allowed fits, with what would be needed.
std::unique_ptr<Program> compile_within_limit(Graph graph,
                                              Backend& backend,
                                              const FlatSpace& space,
                                              MemoryReuse reuse,
                                              const TrainOptions& options,
                                              const BesideTraining& beside,
                                              RecomputeNumber& choice);

/// Throws OutOfMemory: training needs so many bytes, which are more than options.memory_limit.
[[noreturn]] void throw_too_large(std::size_t needed, const TrainOptions& options);

}  // namespace lockstep
