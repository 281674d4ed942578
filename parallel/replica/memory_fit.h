// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>

#include "core/exec/program.h"
#include "core/plan/gradient_space.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// What a program needs in addition to parameters, gradients and optimizer state.
struct ProgramSize {
  std::size_t arena_bytes = 0;
  std::map<std::pair<int, std::string>, std::size_t> packed;  ///< by parameter and format

  explicit ProgramSize(const Program& program);
};

/// What a rank reserves on its device for `programs`, which share an arena: parameters, gradients,
/// optimizer state, the average of the weights, packed copies and the arena.
std::size_t training_bytes(std::span<const ProgramSize> programs,
                           const FlatSpace& space,
                           const GradientSpace& gradients,
                           const TrainOptions& options);

/// What is on the device concurrently with a training program.
struct OtherDeviceMemory {
  std::size_t exchange_bytes = 0;       ///< see exchange_memory()
  std::size_t teacher_bytes = 0;        ///< see CompiledTeacher::bytes()
  const Program* evaluation = nullptr;  ///< uses the same arena; null: none
};

/// Which of recompute_choices() all training programs of a run use.
struct RecomputeIndex {
  int first = 0;   ///< smallest index that may be used
  int index = -1;  ///< -1: not chosen yet
  bool is_last = false;
};

/// Compiles a training graph with the recomputation that `options` asks for: none, all, or the
/// cheapest, from choice.first on, with which the bytes on the device fit options.memory_limit.
/// Where choice.index is set, that one; otherwise sets it.
/// Throws OutOfMemory where no allowed choice fits, naming the bytes needed.
std::unique_ptr<Program> compile_within_limit(Graph graph,
                                              Backend& backend,
                                              const FlatSpace& space,
                                              const GradientSpace& gradients,
                                              MemoryReuse reuse,
                                              const TrainOptions& options,
                                              const OtherDeviceMemory& others,
                                              RecomputeIndex& choice);

/// Throws OutOfMemory: training needs `needed` bytes, more than options.memory_limit.
[[noreturn]] void throw_too_large(std::size_t needed, const TrainOptions& options);

}  // namespace lockstep
