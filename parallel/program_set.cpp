// SPDX-License-Identifier: Apache-2.0
#include "parallel/program_set.h"

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/suggest.h"
#include "core/nn/trace.h"
#include "parallel/dump.h"
#include "parallel/process_memory.h"
#include "parallel/shared_choices.h"

namespace lockstep {
namespace {

std::unique_ptr<const CompiledPrograms> compile(RankContext& context,
                                                const ModelFunction& model,
                                                const LossFunction& loss,
                                                const data::SampleSpec& samples,
                                                const TrainOptions& options,
                                                const BatchPlan& batch,
                                                const std::vector<std::int64_t>& sizes) {
  std::unique_ptr<const CompiledPrograms> compiled;
  compile_with_shared_choices(context, [&] {
    compiled = std::make_unique<const CompiledPrograms>(
        context.backend(), model, loss, samples, options, batch, sizes);
  });
  return compiled;
}

}  // namespace

ProgramSet::ProgramSet(RankContext& context,
                       const ModelFunction& model,
                       const LossFunction& loss,
                       const data::SampleSpec& samples,
                       const TrainOptions& options,
                       const BatchPlan& batch,
                       const std::vector<std::int64_t>& sizes)
    : compiled_(compile(context, model, loss, samples, options, batch, sizes)),
      baseline_bytes_(resident_memory().own),
      buffers_(context.backend(), *compiled_),
      packed_(compiled_->space()) {
  Backend& backend = context.backend();
  request_packed_copies(backend, *compiled_, packed_);
  training_ = bind(backend, compiled_->training());
  evaluation_ = bind(backend, compiled_->evaluation());
  if (env().sync == "1")
    for (auto* programs : {&training_, &evaluation_})
      for (BoundProgram& bound : *programs) bound.program->name_faults();
}

std::vector<BoundProgram> ProgramSet::bind(Backend& backend,
                                           const std::vector<CompiledProgram>& programs) {
  const ProgramMemory memory{buffers_.arena->data(), parameters(), gradients()};
  std::vector<BoundProgram> result;
  for (const CompiledProgram& compiled : programs) {
    Program& program = *compiled.program;
    program.bind(memory, backend, packed_);
    result.push_back({.samples = compiled.samples,
                      .program = &program,
                      .x = program.input(kInputName),
                      .target = program.input(kTargetName),
                      .sample_weight = program.input(kSampleWeightName)});
  }
  return result;
}

void ProgramSet::set_position(Position* position) {
  for (auto* programs : {&training_, &evaluation_})
    for (BoundProgram& bound : *programs) bound.program->set_position(position);
}

void ProgramSet::profile(Profiler* profiler) {
  for (auto* programs : {&training_, &evaluation_})
    for (BoundProgram& bound : *programs) bound.program->profile(profiler);
}

void ProgramSet::check_finite(FiniteReport* report) {
  for (BoundProgram& bound : training_) bound.program->check_finite(report);
}

void ProgramSet::poison_after(const std::string& path) {
  for (BoundProgram& bound : training_) {
    if (bound.program->poison_after(path)) continue;
    std::vector<std::string_view> paths;
    for (const Node& node : graph().nodes()) paths.push_back(node.path);
    throw ConfigError(fmt::format("no operator computes '{}'", path),
                      fmt::format("did you mean '{}'?", nearest(path, paths)));
  }
}

void ProgramSet::dump(const std::string& folder) const {
  dump_flat_space(folder, space(), graph());
  for (const BoundProgram& bound : training_)
    dump_program(folder, fmt::format("training_{}", bound.samples), *bound.program);
  for (const BoundProgram& bound : evaluation_)
    dump_program(folder, fmt::format("evaluation_{}", bound.samples), *bound.program);
}

const BoundProgram& ProgramSet::find(const std::vector<BoundProgram>& programs,
                                     std::int64_t samples) {
  for (const BoundProgram& bound : programs)
    if (bound.samples == samples) return bound;
  throw InternalError(fmt::format("no program for a micro-batch of {} samples", samples));
}

}  // namespace lockstep
