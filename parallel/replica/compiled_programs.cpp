// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/compiled_programs.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/nn/trace.h"
#include "core/optim/optimizer.h"
#include "core/plan/orthogonalize.h"
#include "core/plan/precision.h"
#include "core/step/step_params_upload.h"
#include "parallel/replica/gradient_division.h"
#include "parallel/replica/replica_parts.h"
#include "parallel/replica/timing_scope.h"

namespace lockstep {
namespace {

void check_parameters(const Graph& graph, const Graph& first, std::int64_t samples) {
  const bool same = std::ranges::equal(
      graph.parameters(), first.parameters(), [](const Parameter& p, const Parameter& q) {
        return p.name == q.name && p.shape == q.shape && p.kind == q.kind;
      });
  LOCKSTEP_CHECK(same,
                 ConfigError,
                 "model: for {} samples or in evaluation it declares other parameters than in "
                 "training; declare all of them always",
                 samples);
}

std::optional<ops::Distilled> distilled_by(const Distillation& distillation) {
  if (!distillation.on()) return std::nullopt;
  return ops::Distilled{.alpha = distillation.alpha,
                        .temperature = distillation.hard ? 1 : distillation.temperature,
                        .hard = distillation.hard};
}

/// What owners send rounded must be read rounded by every program: Note [Weights in bf16].
void check_rounded_weights(const Graph& graph, const FlatSpace& space) {
  const std::vector<bool> rounded = bf16_weights(graph);
  for (const Segment& segment : space.segments) {
    const auto parameter = std::size_t(segment.parameter);
    if (!segment.bf16 || rounded[parameter]) continue;
    throw ConfigError(fmt::format("model: {} is read in fp32 in evaluation or by a short "
                                  "micro-batch, and only in bf16 otherwise",
                                  graph.parameters()[parameter].name),
                      "use it in the same layers always, or `shard` none");
  }
}

}  // namespace

std::vector<std::int64_t> distinct_sizes(const BatchPlan& batch, std::vector<std::int64_t> sizes) {
  if (batch.cluster > 1) sizes.push_back(0);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::erase(sizes, batch.micro_batch);
  if (batch.cluster == 1) std::erase(sizes, 0);
  sizes.insert(sizes.begin(), batch.micro_batch);
  return sizes;
}

MemoryReuse reuse_of_environment() {
  const auto& plan = env().plan;
  if (!plan) return MemoryReuse::on;
  return *plan == "off" ? MemoryReuse::off : MemoryReuse::poison;
}

BuilderSettings settings_for(const TrainOptions& options,
                             const DeviceTraits& device,
                             const BatchPlan& batch,
                             std::int64_t samples) {
  BatchNormPolicy policy = options.batch_norm;
  policy.group = batch.group_size;
  if (batch.group_size == 0 && policy.kind == BatchNormPolicy::Kind::group)
    policy.kind = BatchNormPolicy::Kind::local;
  return {.mode = Mode::training,
          .batch_norm = policy,
          .group_ranks = batch.cluster,
          .micro_batch = samples,
          .precision = options.precision,
          .soft_targets = options.augmentation.mixes(),
          .mirrors = options.tta == TestTimeAugmentation::flip,
          .fuse = options.fuse,
          .recompute = options.recompute != Recompute::none,
          .row_multiple = device.row_multiple,
          .freeze = options.freeze,
          .distilled = distilled_by(options.distillation)};
}

std::int64_t bucket_bytes(const TrainOptions& options,
                          const DeviceTraits& device,
                          const Graph& graph) {
  if (options.bucket_mb > 0) return std::int64_t(std::llround(options.bucket_mb * 1024 * 1024));
  // A single bucket would not overlap with backward.
  constexpr std::int64_t kMinBytes = DeviceTraits{}.bucket_bytes, kMinBuckets = 4;
  std::int64_t bytes = 0;
  for (const Parameter& parameter : graph.parameters())
    if (!parameter.frozen) bytes += parameter.shape.elems() * std::int64_t(sizeof(float));
  return std::min(device.bucket_bytes, std::max(kMinBytes, bytes / kMinBuckets));
}

BucketRules bucket_rules(const TrainOptions& options,
                         const DeviceTraits& device,
                         const BatchPlan& batch,
                         int ranks_per_host) {
  return {.ranks = batch.ranks,
          .ranks_per_host = ranks_per_host,
          .cuts_parameters = device.buckets_in_flight > 1,
          .shards_optimizer = options.sharding != Sharding::none};
}

CompiledPrograms::CompiledPrograms(Backend& backend,
                                   const ModelFunction& model,
                                   const LossFunction& loss,
                                   const RunSamples& samples,
                                   const TrainOptions& options,
                                   const BatchPlan& batch,
                                   std::vector<std::int64_t> sizes,
                                   int ranks_per_host)
    : traits_(backend.traits()), ranks_per_host_(ranks_per_host), reuse_(reuse_of_environment()) {
  LOCKSTEP_CHECK(backend.allow_tf32(options.precision == Precision::tf32),
                 ConfigError,
                 "`precision` tf32: {} has no tf32 products (GPUs have: `device` cuda)",
                 backend.device_class());
  for (const data::SampleSpec& other : samples.training)
    if (other.input != samples.last().input)
      expect_same_parameters(model, samples.last(), other, "`image_size`");
  if (samples.evaluation.input != samples.last().input)
    expect_same_parameters(model, samples.last(), samples.evaluation, "`eval_image_size`");
  sizes = distinct_sizes(batch, std::move(sizes));
  if (options.distillation.on())
    teacher_ = std::make_unique<CompiledTeacher>(backend, samples.last(), options, sizes, reuse_);
  for (;;) {
    for (TimingScope timing(backend); const std::int64_t n : sizes) {
      timing.enter(n == sizes.front());
      add(backend, model, loss, samples, options, batch, n);
    }
    add_other_sizes(backend, model, loss, samples, options, batch, sizes);
    if (needs_whole_gradients_ && gradients_.divided()) {
      forget_programs();
      continue;
    }
    if (!orthogonalization_)
      orthogonalization_ = compile_orthogonalization(backend, graph(), space_, options);
    if (options.memory_limit == 0) return;
    const std::size_t needed = device_bytes(options, batch);
    if (needed <= options.memory_limit) return;
    // Short micro-batches may want packed copies of their own.
    if (choice_.is_last) throw_too_large(needed, options);
    const int next = choice_.index + 1;
    forget_programs();
    choice_ = {.first = next};
  }
}

void CompiledPrograms::forget_programs() {
  choice_ = {};
  training_.clear();
  other_sizes_.clear();
  evaluation_.clear();
}

std::size_t CompiledPrograms::device_bytes(const TrainOptions& options,
                                           const BatchPlan& batch) const {
  std::vector<ProgramSize> programs;
  for_each([&](const CompiledProgram& compiled) { programs.emplace_back(*compiled.program); });
  if (orthogonalization_) programs.emplace_back(*orthogonalization_);
  return training_bytes(programs, space_, gradients_, options) +
         exchange_memory(graph(), space_, gradients_, options, batch, traits_) +
         (teacher_ ? teacher_->bytes() : 0);
}

void CompiledPrograms::add(Backend& backend,
                           const ModelFunction& model,
                           const LossFunction& loss,
                           const RunSamples& samples,
                           const TrainOptions& options,
                           const BatchPlan& batch,
                           std::int64_t micro_batch) {
  Graph graph =
      trace(model, loss, samples.last(), settings_for(options, traits_, batch, micro_batch));
  if (training_.empty()) {
    space_ = lay_out(graph,
                     bucket_bytes(options, traits_, graph),
                     bucket_rules(options, traits_, batch, ranks_per_host_));
    gradients_ =
        needs_whole_gradients_
            ? GradientSpace(space_, "a micro-batch of another size finishes them in another order")
            : divide_gradients(graph, space_, options, batch, traits_);
  }
  check_parameters(graph, training_.empty() ? graph : this->graph(), micro_batch);
  check_rounded_weights(graph, space_);
  OtherDeviceMemory others;
  others.teacher_bytes = teacher_ ? teacher_->bytes() : 0;
  if (micro_batch > 0) {
    evaluation_.push_back(compile_evaluation(
        backend,
        trace(model, loss, samples.evaluation, evaluating(options, batch, micro_batch)),
        training_.empty() ? graph : this->graph(),
        micro_batch));
    others.evaluation = evaluation_.back().program.get();
  }
  if (options.memory_limit > 0)
    others.exchange_bytes = exchange_memory(
        training_.empty() ? graph : this->graph(), space_, gradients_, options, batch, traits_);
  training_.push_back(
      {micro_batch,
       compile_within_limit(
           std::move(graph), backend, space_, gradients_, reuse_, options, others, choice_)});
  needs_whole_gradients_ |= !gradients_.suits(training_.back().program->graph(), space_);
}

void CompiledPrograms::add_other_sizes(Backend& backend,
                                       const ModelFunction& model,
                                       const LossFunction& loss,
                                       const RunSamples& samples,
                                       const TrainOptions& options,
                                       const BatchPlan& batch,
                                       const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = 1; i < samples.training.size(); ++i) {
    std::vector<CompiledProgram>& programs = other_sizes_.emplace_back();
    for (TimingScope timing(backend); const std::int64_t n : sizes) {
      timing.enter(n == sizes.front());
      Graph graph =
          trace(model, loss, samples.training[i], settings_for(options, traits_, batch, n));
      check_parameters(graph, this->graph(), n);
      check_rounded_weights(graph, space_);
      programs.push_back({n,
                          compile_within_limit(std::move(graph),
                                               backend,
                                               space_,
                                               gradients_,
                                               reuse_,
                                               options,
                                               OtherDeviceMemory{},
                                               choice_)});
      needs_whole_gradients_ |= !gradients_.suits(programs.back().program->graph(), space_);
    }
  }
}

// On GPUs the factors may be rounded to tf32, whatever the precision of training.
std::unique_ptr<Program> compile_orthogonalization(Backend& backend,
                                                   const Graph& training,
                                                   const FlatSpace& space,
                                                   const TrainOptions& options) {
  if (!has_phase(options.optimizer, UpdatePhase::orthogonalize)) return nullptr;
  std::optional<Graph> graph = orthogonalization(training);
  if (!graph)
    throw ConfigError(
        fmt::format("optimizer {}: the model has no matrix between hidden layers that is trained",
                    name_of(options.optimizer)),
        options.freeze.empty() ? "choose an optimizer that updates elements, or add a hidden layer"
                               : "choose an optimizer that updates elements, or `freeze` less");
  backend.allow_tf32(true);
  auto program = std::make_unique<Program>(
      std::move(*graph), backend, space, reuse_of_environment(), NodeOrder::as_given);
  backend.allow_tf32(options.precision == Precision::tf32);
  return program;
}

void CompiledPrograms::add_late_evaluation(Backend& backend,
                                           const ModelFunction& model,
                                           const LossFunction& loss,
                                           const RunSamples& samples,
                                           const TrainOptions& options,
                                           const BatchPlan& batch,
                                           std::int64_t micro_batch) {
  late_evaluation_.reset();
  TimingScope timing(backend);
  timing.enter(false);
  late_evaluation_ = compile_evaluation(
      backend,
      trace(model, loss, samples.evaluation, evaluating(options, batch, micro_batch)),
      this->graph(),
      micro_batch);
}

BuilderSettings CompiledPrograms::evaluating(const TrainOptions& options,
                                             const BatchPlan& batch,
                                             std::int64_t micro_batch) const {
  BuilderSettings settings = settings_for(options, traits_, batch, micro_batch);
  settings.mode = Mode::evaluation;
  return settings;
}

CompiledProgram CompiledPrograms::compile_evaluation(Backend& backend,
                                                     Graph graph,
                                                     const Graph& first,
                                                     std::int64_t micro_batch) const {
  check_parameters(graph, first, micro_batch);
  check_rounded_weights(graph, space_);
  return {micro_batch, std::make_unique<Program>(std::move(graph), backend, space_, reuse_)};
}

const Program& CompiledPrograms::largest() const {
  const Program* largest = &whole();
  for_each([&](const CompiledProgram& compiled) {
    if (compiled.program->arena_bytes() > largest->arena_bytes()) largest = compiled.program.get();
  });
  if (orthogonalization_ && orthogonalization_->arena_bytes() > largest->arena_bytes())
    largest = orthogonalization_.get();
  return *largest;
}

ProgramBuffers::ProgramBuffers(Backend& backend, const CompiledPrograms& programs) {
  const auto bytes_of = [](std::int64_t elems) {
    return std::size_t(std::max<std::int64_t>(1, elems)) * sizeof(float);
  };
  arena = backend.allocate(std::max(kArenaAlignment, programs.largest().arena_bytes()),
                           "activations and workspace");
  parameters = backend.allocate(bytes_of(programs.space().elems), "parameters");
  gradients = backend.allocate(bytes_of(programs.gradients().elems()), "gradients");
  upload =
      backend.allocate(StepParamsUpload::device_bytes(backend.traits(), programs.whole().graph()),
                       "counters of a step");
}

void request_packed_copies(Backend& backend,
                           const CompiledPrograms& programs,
                           PackedCopies& packed) {
  programs.for_each([&](const CompiledProgram& compiled) {
    for (const auto& [parameter, copy] : compiled.program->packed_copies())
      packed.request(backend, parameter, copy);
  });
}

}  // namespace lockstep
