// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/program_set.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/env.h"
#include "core/base/text/number_format.h"
#include "core/base/text/suggest.h"
#include "core/exec/communicator.h"
#include "core/host/process_memory.h"
#include "core/nn/trace.h"
#include "core/step/dump.h"
#include "core/step/step_params_upload.h"
#include "lockstep/error.h"
#include "parallel/replica/algorithm_broadcast.h"

namespace lockstep {
namespace {

std::shared_ptr<CompiledPrograms> compile(RankContext& context,
                                          const ModelFunction& model,
                                          const LossFunction& loss,
                                          const RunSamples& samples,
                                          const TrainOptions& options,
                                          const BatchPlan& batch,
                                          const std::vector<std::int64_t>& sizes) {
  std::shared_ptr<CompiledPrograms> own;
  SharedPrograms* const shared = context.shared_programs();
  std::shared_ptr<CompiledPrograms>& compiled = shared != nullptr ? shared->programs : own;
  compile_with_broadcast_algorithms(context, [&] {
    if (compiled) return;
    compiled = std::make_shared<CompiledPrograms>(context.backend(),
                                                  model,
                                                  loss,
                                                  samples,
                                                  options,
                                                  batch,
                                                  sizes,
                                                  context.communicator().ranks_per_node());
  });
  return compiled;
}

std::size_t input_bytes(const Graph& graph, const char* name) {
  for (std::size_t i = 0; i < graph.input_names().size(); ++i)
    if (graph.input_names()[i] == name) return graph.value(graph.input_value(int(i))).type.bytes();
  return 0;
}

}  // namespace

ProgramSet::ProgramSet(RankContext& context,
                       const ModelFunction& model,
                       const LossFunction& loss,
                       const RunSamples& samples,
                       const TrainOptions& options,
                       const BatchPlan& batch,
                       const std::vector<std::int64_t>& sizes)
    : compiled_(compile(context, model, loss, samples, options, batch, sizes)),
      baseline_bytes_(resident_memory().own),
      buffers_(context.backend(), *compiled_),
      packed_(compiled_->space()) {
  Backend& backend = context.backend();
  request_packed_copies(backend, *compiled_, packed_);
  packed_.fix_rounded();
  planned_copies_ = packed_.count();
  SharedPrograms* const shared = context.shared_programs();
  is_bound_ = shared != nullptr && shared->packed != nullptr;
  if (shared != nullptr && !is_bound_) {
    shared->packed = std::make_unique<PackedCopies>(compiled_->space());
    request_packed_copies(backend, *compiled_, *shared->packed);
  }
  shared_packed_ = shared != nullptr ? shared->packed.get() : nullptr;
  const auto bind_all = [&](const std::vector<CompiledProgram>& programs) {
    std::vector<BoundProgram>& bound = training_.emplace_back();
    for (const CompiledProgram& program : programs)
      bound.push_back(bind(backend, program, *buffers_.arena));
  };
  bind_all(compiled_->training());
  for (const auto& programs : compiled_->other_sizes()) bind_all(programs);
  for (const CompiledProgram& program : compiled_->evaluation())
    evaluation_.push_back(bind(backend, program, *buffers_.arena));
  if (compiled_->teacher())
    teacher_ = std::make_unique<Teacher>(backend, *compiled_->teacher(), options);
  if (Program* const program = orthogonalization(); program != nullptr && !is_bound_) {
    program->bind({buffers_.arena->data(), gradients(), gradients()},
                  backend,
                  shared_packed_ != nullptr ? *shared_packed_ : packed_);
    if (env().sync == "1") program->name_faults();
  }
}

BoundProgram ProgramSet::bind(Backend& backend,
                              const CompiledProgram& compiled,
                              DeviceBuffer& arena) {
  Program& program = *compiled.program;
  if (!is_bound_)
    program.bind({arena.data(),
                  parameters(),
                  gradients(),
                  &compiled_->gradients(),
                  StepParamsUpload::inputs_in(*buffers_.upload, program.graph())},
                 backend,
                 shared_packed_ != nullptr ? *shared_packed_ : packed_);
  if (env().sync == "1") program.name_faults();
  return {.samples = compiled.samples,
          .program = &program,
          .x = program.input(kInputName),
          .target = program.input(kTargetName),
          .x_bytes = input_bytes(program.graph(), kInputName),
          .target_bytes = input_bytes(program.graph(), kTargetName),
          .sample_weight = program.input(kSampleWeightName),
          .teacher = program.input(kTeacherName)};
}

bool ProgramSet::evaluates(std::int64_t samples) const {
  return (late_evaluation_ && late_evaluation_->samples == samples) ||
         std::ranges::find(evaluation_, samples, &BoundProgram::samples) != evaluation_.end();
}

void ProgramSet::set_late_evaluation(RankContext& context,
                                     const ModelFunction& model,
                                     const LossFunction& loss,
                                     const RunSamples& samples,
                                     const TrainOptions& options,
                                     const BatchPlan& batch,
                                     std::int64_t micro_batch) {
  Backend& backend = context.backend();
  drop_late_evaluation();
  compile_with_broadcast_algorithms(context, [&] {
    compiled_->add_late_evaluation(backend, model, loss, samples, options, batch, micro_batch);
    check_limit(options, batch);
  });
  const CompiledProgram& late = *compiled_->late_evaluation();
  const Program& program = *late.program;
  if (!fits_arena(program))
    late_arena_ = backend.allocate(program.arena_bytes(), "activations and workspace");
  late_evaluation_ = bind(backend, late, late_arena_ ? *late_arena_ : *buffers_.arena);
  late.program->set_position(position_);
  if (profiler_ != nullptr) late.program->profile(profiler_);
}

void ProgramSet::drop_late_evaluation() {
  late_evaluation_.reset();
  packed_.drop_from(planned_copies_);  // its kernels are their packers
  compiled_->drop_late_evaluation();
  late_arena_.reset();
}

void ProgramSet::check_limit(const TrainOptions& options, const BatchPlan& batch) const {
  if (options.memory_limit == 0) return;
  const CompiledProgram& late = *compiled_->late_evaluation();
  const std::size_t needed = compiled_->device_bytes(options, batch) +
                             packed_.bytes_to_add(late.program->packed_copies()) +
                             (fits_arena(*late.program) ? 0 : late.program->arena_bytes());
  if (needed <= options.memory_limit) return;
  throw OutOfMemory(
      fmt::format("memory: samples that cannot be read leave a last micro-batch of {} samples to "
                  "the evaluation, with which the run takes {}; the limit is {}",
                  late.samples,
                  format_bytes(double(needed)),
                  format_bytes(double(options.memory_limit))),
      "mend or remove the files that cannot be read, or raise `memory_limit`");
}

void ProgramSet::set_position(Position* position) {
  position_ = position;
  for_each([position](Program& program) { program.set_position(position); });
}

void ProgramSet::profile(Profiler* profiler) {
  profiler_ = profiler;
  for_each([profiler](Program& program) { program.profile(profiler); });
}

void ProgramSet::check_finite(FiniteReport* report) {
  for_each_training([report](Program& program) { program.check_finite(report); });
}

void ProgramSet::poison_after(const std::string& path) {
  for_each_training([&](Program& program) {
    if (program.poison_after(path)) return;
    std::vector<std::string_view> paths;
    for (const Node& node : graph().nodes()) paths.push_back(node.path);
    throw ConfigError(fmt::format("no operator computes '{}'", path),
                      fmt::format("did you mean '{}'?", nearest(path, paths)));
  });
}

void ProgramSet::dump(const std::string& folder) const {
  dump_flat_space(folder, space(), graph());
  for (std::size_t size = 0; size < training_.size(); ++size)
    for (const BoundProgram& bound : training_[size])
      dump_program(
          folder,
          fmt::format(
              "training_{}{}", bound.samples, size == 0 ? "" : fmt::format("_size_{}", size)),
          *bound.program);
  for (const BoundProgram& bound : evaluation_)
    dump_program(folder, fmt::format("evaluation_{}", bound.samples), *bound.program);
  if (compiled_->orthogonalization())
    dump_program(folder, "orthogonalization", *compiled_->orthogonalization());
}

const BoundProgram& ProgramSet::find(const std::vector<BoundProgram>& programs,
                                     std::int64_t samples) {
  for (const BoundProgram& bound : programs)
    if (bound.samples == samples) return bound;
  throw InternalError(fmt::format("no program for a micro-batch of {} samples", samples));
}

}  // namespace lockstep
