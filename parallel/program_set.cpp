// SPDX-License-Identifier: Apache-2.0
#include "parallel/program_set.h"

#include <algorithm>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/suggest.h"
#include "core/nn/trace.h"
#include "parallel/dump.h"
#include "parallel/process_memory.h"
#include "parallel/shared_choices.h"

namespace lockstep {
namespace {

std::unique_ptr<CompiledPrograms> compile(RankContext& context,
                                          const ModelFunction& model,
                                          const LossFunction& loss,
                                          const data::SampleSpec& samples,
                                          const TrainOptions& options,
                                          const BatchPlan& batch,
                                          const std::vector<std::int64_t>& sizes) {
  std::unique_ptr<CompiledPrograms> compiled;
  compile_with_shared_choices(context, [&] {
    compiled = std::make_unique<CompiledPrograms>(
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
  for (const CompiledProgram& program : compiled_->training())
    training_.push_back(bind(backend, program));
  for (const CompiledProgram& program : compiled_->evaluation())
    evaluation_.push_back(bind(backend, program));
}

BoundProgram ProgramSet::bind(Backend& backend, const CompiledProgram& compiled) {
  Program& program = *compiled.program;
  const bool fits = program.arena_bytes() <= buffers_.arena->bytes();
  if (!fits)
    later_arenas_.push_back(backend.allocate(program.arena_bytes(), "activations and workspace"));
  DeviceBuffer& arena = fits ? *buffers_.arena : *later_arenas_.back();
  program.bind({arena.data(), parameters(), gradients()}, backend, packed_);
  if (env().sync == "1") program.name_faults();
  return {.samples = compiled.samples,
          .program = &program,
          .x = program.input(kInputName),
          .target = program.input(kTargetName),
          .sample_weight = program.input(kSampleWeightName)};
}

bool ProgramSet::evaluates(std::int64_t samples) const {
  return std::ranges::find(evaluation_, samples, &BoundProgram::samples) != evaluation_.end();
}

void ProgramSet::add_evaluation(RankContext& context,
                                const ModelFunction& model,
                                const LossFunction& loss,
                                const data::SampleSpec& samples,
                                const TrainOptions& options,
                                const BatchPlan& batch,
                                std::int64_t micro_batch) {
  Backend& backend = context.backend();
  compile_with_shared_choices(context, [&] {
    compiled_->add_evaluation(backend, model, loss, samples, options, batch, micro_batch);
  });
  request_packed_copies(backend, *compiled_, packed_);
  evaluation_.push_back(bind(backend, compiled_->evaluation().back()));
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
