// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/teacher.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/io/load_weights.h"
#include "core/nn/trace.h"
#include "parallel/replica/timing_scope.h"

namespace lockstep {

CompiledTeacher::CompiledTeacher(Backend& backend,
                                 const data::SampleSpec& samples,
                                 const TrainOptions& options,
                                 const std::vector<std::int64_t>& sizes,
                                 MemoryReuse reuse) {
  for (TimingScope timing(backend); const std::int64_t n : sizes) {
    if (n == 0) continue;
    timing.enter(n == sizes.front());
    Graph graph = trace_prediction(options.distillation.model,
                                   samples,
                                   {.micro_batch = n,
                                    .precision = options.precision,
                                    .fuse = options.fuse,
                                    .row_multiple = backend.traits().row_multiple});
    const Shape& shape = graph.value(graph.outputs().front().second).type.shape;
    LOCKSTEP_CHECK(shape == Shape({n, samples.classes}),
                   ConfigError,
                   "`teacher`: it predicts {}, and a student of {} classes needs [N, {}]",
                   shape.to_string(),
                   samples.classes,
                   samples.classes);
    if (programs_.empty()) space_ = prediction_space(graph);
    programs_.emplace(n, std::make_unique<Program>(std::move(graph), backend, space_, reuse));
  }
}

std::size_t CompiledTeacher::bytes() const {
  std::size_t arena = 0, copies = 0;
  std::map<std::pair<int, std::string>, std::size_t> packed;
  for (const auto& [samples, program] : programs_) {
    arena = std::max(arena, program->arena_bytes());
    for (const auto& [parameter, copy] : program->packed_copies())
      packed[{parameter, copy.format}] = copy.bytes;
  }
  for (const auto& [copy, bytes] : packed) copies += bytes;
  return arena + copies + std::size_t(space_.elems) * sizeof(float);
}

std::vector<Program*> CompiledTeacher::programs() const {
  std::vector<Program*> all;
  for (const auto& [samples, program] : programs_) all.push_back(program.get());
  return all;
}

Teacher::Teacher(Backend& backend, CompiledTeacher& compiled, const TrainOptions& options)
    : backend_(backend),
      compiled_(compiled),
      parameters_(backend,
                  compiled.space_,
                  compiled.programs(),
                  options.distillation.weights,
                  "teacher's ") {}

void Teacher::run(std::int64_t samples, const void* x, std::size_t x_bytes, void* logits) {
  Program& program = *compiled_.programs_.at(samples);
  backend_.copy(program.input(kInputName), x, x_bytes);
  program.run_forward({});
  const Graph& graph = program.graph();
  backend_.copy(logits,
                program.output(kPredictionName),
                graph.value(graph.outputs().front().second).type.bytes());
}

std::string teacher_sha256(const TrainOptions& options, const data::SampleSpec& samples) {
  const Graph graph = trace_prediction(options.distillation.model, samples, {});
  return io::weights_sha256(io::load_weights(
      options.distillation.weights, graph.parameters(), NamePatterns("`init_skip`", {})));
}

}  // namespace lockstep
