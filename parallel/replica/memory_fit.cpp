// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/memory_fit.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/text/number_format.h"
#include "core/plan/ownership.h"
#include "core/plan/recompute.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

std::size_t device_bytes(const Program& training,
                         const FlatSpace& space,
                         const GradientSpace& gradients,
                         const TrainOptions& options,
                         const OtherDeviceMemory& others) {
  std::vector<ProgramSize> programs{ProgramSize(training)};
  if (others.evaluation != nullptr) programs.emplace_back(*others.evaluation);
  return training_bytes(programs, space, gradients, options) + others.exchange_bytes +
         others.teacher_bytes;
}

}  // namespace

void throw_too_large(std::size_t needed, const TrainOptions& options) {
  throw OutOfMemory(fmt::format("memory: training takes {} with `recompute` {}, the limit is {}",
                                format_bytes(double(needed)),
                                name_of(options.recompute),
                                format_bytes(double(options.memory_limit))),
                    options.recompute == Recompute::none
                        ? "use `recompute` auto, or a smaller `micro_batch`"
                        : "use a smaller `micro_batch` or model");
}

ProgramSize::ProgramSize(const Program& program) : arena_bytes(program.arena_bytes()) {
  for (const auto& [parameter, copy] : program.packed_copies())
    packed[{parameter, copy.format}] = copy.bytes;
}

std::size_t training_bytes(std::span<const ProgramSize> programs,
                           const FlatSpace& space,
                           const GradientSpace& gradients,
                           const TrainOptions& options) {
  std::size_t arena = kArenaAlignment;
  std::map<std::pair<int, std::string>, std::size_t> packed;
  for (const ProgramSize& program : programs) {
    arena = std::max(arena, program.arena_bytes);
    for (const auto& [copy, bytes] : program.packed) packed[copy] = bytes;
  }
  const int owned = state_arrays(options.optimizer) + int(options.ema.on());
  const std::int64_t elems = space.elems + gradients.elems() + owned * Ownership(space, 0).elems();
  std::size_t bytes = arena + std::size_t(elems) * sizeof(float);
  bool rounds = false;
  for (const auto& [copy, size] : packed) {
    const bool rounded = copy.second == kRoundedFormat;
    rounds |= rounded;
    if (!rounded) bytes += size;
  }
  if (rounds) bytes += rounded_bytes(space);
  return bytes;
}

std::unique_ptr<Program> compile_within_limit(Graph graph,
                                              Backend& backend,
                                              const FlatSpace& space,
                                              const GradientSpace& gradients,
                                              MemoryReuse reuse,
                                              const TrainOptions& options,
                                              const OtherDeviceMemory& others,
                                              RecomputeIndex& choice) {
  if (options.recompute == Recompute::none && options.memory_limit == 0)
    return std::make_unique<Program>(std::move(graph), backend, space, reuse);
  const std::vector<RecomputeChoice> choices = recompute_choices(graph);
  const int max = int(choices.size()) - 1;
  const bool known = choice.index >= 0;
  int first = std::min(choice.first, max), last = max;
  if (options.recompute == Recompute::none) last = 0;
  if (options.recompute == Recompute::all) first = last = int(index_of_all(choices));
  if (known) first = last = std::min(choice.index, max);
  std::size_t min_bytes = SIZE_MAX;
  for (int i = first; i <= last; ++i) {
    auto program = std::make_unique<Program>(
        recompute(graph, choices[std::size_t(i)].dropped), backend, space, reuse);
    const std::size_t bytes = device_bytes(*program, space, gradients, options, others);
    min_bytes = std::min(min_bytes, bytes);
    if (!known && options.memory_limit > 0 && bytes > options.memory_limit) continue;
    if (!known) choice = {.first = choice.first, .index = i, .is_last = i == last};
    return program;
  }
  throw_too_large(min_bytes, options);
}

}  // namespace lockstep
