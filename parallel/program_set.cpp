// SPDX-License-Identifier: Apache-2.0
#include "parallel/program_set.h"

#include <algorithm>
#include <cmath>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/suggest.h"
#include "core/nn/trace.h"
#include "parallel/dump.h"
#include "parallel/memory_fit.h"

namespace lockstep {
namespace {

/// The micro-batch first, then the other sizes once each.
std::vector<std::int64_t> distinct_sizes(const BatchPlan& batch, std::vector<std::int64_t> sizes) {
  if (batch.cluster > 1) sizes.push_back(0);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::erase(sizes, batch.micro_batch);
  if (batch.cluster == 1) std::erase(sizes, 0);
  sizes.insert(sizes.begin(), batch.micro_batch);
  return sizes;
}

bool same_parameters(const Graph& a, const Graph& b) {
  return std::ranges::equal(
      a.parameters(), b.parameters(), [](const Parameter& p, const Parameter& q) {
        return p.name == q.name && p.shape == q.shape && p.kind == q.kind;
      });
}

MemoryReuse reuse_of_environment() {
  const auto& plan = env().plan;
  if (!plan) return MemoryReuse::on;
  return *plan == "off" ? MemoryReuse::off : MemoryReuse::poison;
}

}  // namespace

ProgramSet::ProgramSet(Backend& backend,
                       const ModelFunction& model,
                       const LossFunction& loss,
                       const data::SampleSpec& samples,
                       const TrainOptions& options,
                       const BatchPlan& batch,
                       std::vector<std::int64_t> sizes)
    : reuse_(reuse_of_environment()) {
  LOCKSTEP_CHECK(backend.allow_tf32(options.precision == Precision::tf32),
                 ConfigError,
                 "--precision tf32: {} has no tf32 products (GPUs have: --device cuda)",
                 backend.device_class());
  const auto bucket_bytes = std::int64_t(std::llround(options.bucket_mb * 1024 * 1024));
  int choice = -1;  // of recomputation: the whole micro-batch, which comes first, decides
  for (std::int64_t n : distinct_sizes(batch, std::move(sizes))) {
    BatchNormPolicy policy = options.batch_norm;
    policy.group = batch.group_size;
    if (batch.group_size == 0 && policy.kind == BatchNormPolicy::Kind::group)
      policy.kind = BatchNormPolicy::Kind::local;
    const Builder::Settings settings{.mode = Mode::training,
                                     .batch_norm = policy,
                                     .group_ranks = batch.cluster,
                                     .micro_batch = n,
                                     .precision = options.precision,
                                     .fuse = options.fuse,
                                     .recompute = options.recompute != Recompute::none,
                                     .freeze = options.freeze};
    Graph graph = trace(model, loss, samples, settings);
    if (training_.empty()) space_ = lay_out(graph, bucket_bytes);
    check_parameters(n, graph);
    training_.push_back(
        {n, compile_within_limit(std::move(graph), backend, space_, reuse_, options, choice)});
    if (n == 0) continue;
    Builder::Settings evaluation = settings;
    evaluation.mode = Mode::evaluation;
    Graph evaluating = trace(model, loss, samples, evaluation);
    check_parameters(n, evaluating);
    evaluation_.push_back(
        {n, std::make_unique<Program>(std::move(evaluating), backend, space_, reuse_)});
  }
  allocate_and_bind(backend);
  if (env().sync == "1")
    for (auto* programs : {&training_, &evaluation_})
      for (BoundProgram& bound : *programs) bound.program->name_faults();
}

void ProgramSet::check_parameters(std::int64_t samples, const Graph& graph) const {
  LOCKSTEP_CHECK(training_.empty() || same_parameters(graph, this->graph()),
                 ConfigError,
                 "model: for {} samples or in evaluation it declares other parameters than in "
                 "training; declare all of them always",
                 samples);
}

void ProgramSet::allocate_and_bind(Backend& backend) {
  std::size_t arena_bytes = kArenaAlignment;
  for (const auto* programs : {&training_, &evaluation_})
    for (const BoundProgram& sized : *programs)
      arena_bytes = std::max(arena_bytes, sized.program->arena_bytes());
  const std::size_t flat_bytes = std::size_t(std::max<std::int64_t>(1, space_.elems)) * 4;
  arena_ = backend.allocate(arena_bytes, "activations and workspace");
  parameters_ = backend.allocate(flat_bytes, "parameters");
  gradients_ = backend.allocate(flat_bytes, "gradients");
  const ProgramMemory memory{arena_->data(), parameters(), gradients()};
  for (auto* programs : {&training_, &evaluation_})
    for (BoundProgram& bound : *programs) {
      bound.program->bind(memory, backend, packed_);
      bound.x = bound.program->input(kInputName);
      bound.target = bound.program->input(kTargetName);
      bound.sample_weight = bound.program->input(kSampleWeightName);
    }
}

std::size_t ProgramSet::planned_bytes(const Optimizer& optimizer) const {
  return training_bytes(*training_.front().program, space_, optimizer);
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
  dump_flat_space(folder, space_, graph());
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
