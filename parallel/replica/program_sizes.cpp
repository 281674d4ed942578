// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/program_sizes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/nn/trace.h"
#include "parallel/replica/gradient_division.h"
#include "parallel/replica/memory_fit.h"
#include "parallel/replica/replica_parts.h"

namespace lockstep {
namespace {

/// Of the choices that `recompute` allows, the first and one past the last.
std::pair<std::size_t, std::size_t> allowed(MicroBatchSizes& sizes, Recompute recompute) {
  if (recompute == Recompute::none) return {0, 1};
  if (recompute == Recompute::automatic) return {0, sizes.choices().size()};
  const std::size_t all = index_of_all(sizes.choices());
  return {all, all + 1};
}

}  // namespace

MicroBatchSizes::MicroBatchSizes(Backend& device,
                                 Graph graph,
                                 std::int64_t bucket_bytes,
                                 const BucketRules& rules)
    : device_(device), graph_(std::move(graph)), space_(lay_out(graph_, bucket_bytes, rules)) {}

const std::vector<RecomputeChoice>& MicroBatchSizes::choices() {
  if (choices_.empty()) choices_ = recompute_choices(graph_);
  return choices_;
}

const ProgramSize& MicroBatchSizes::training(std::size_t choice) {
  const auto known = training_.find(choice);
  if (known != training_.end()) return known->second;
  const std::vector<bool> dropped =
      choice == 0 ? std::vector<bool>(graph_.values().size(), false) : choices()[choice].dropped;
  const Program program(recompute(graph_, dropped), device_, space_, reuse_of_environment());
  return training_.emplace(choice, ProgramSize(program)).first->second;
}

std::optional<ProgramSize> MicroBatchSizes::orthogonalization(const TrainOptions& options) {
  if (!has_phase(options.optimizer, UpdatePhase::orthogonalize)) return std::nullopt;
  if (!orthogonalization_)
    orthogonalization_.emplace(*compile_orthogonalization(device_, graph_, space_, options));
  return orthogonalization_;
}

MemoryBeside MicroBatchSizes::beside(const TrainOptions& options, const BatchPlan& batch) const {
  const DeviceTraits device = device_.traits();
  GradientSpace gradients = divide_gradients(graph_, space_, options, batch, device);
  const std::size_t exchange = exchange_memory(graph_, space_, gradients, options, batch, device);
  return {std::move(gradients), exchange + teacher_bytes_};
}

std::size_t MicroBatchSizes::training_bytes(std::span<const ProgramSize> programs,
                                            const TrainOptions& options,
                                            const MemoryBeside& beside) const {
  return lockstep::training_bytes(programs, space_, beside.gradients, options) + beside.bytes;
}

ProgramSizes::ProgramSizes(Backend& device,
                           ModelFunction model,
                           LossFunction loss,
                           const RunSamples& samples)
    : device_(device), model_(std::move(model)), loss_(std::move(loss)), samples_(samples) {}

Graph ProgramSizes::trace_as(const BuilderSettings& settings) {
  const auto traced = [&] {
    const bool trains = settings.mode == Mode::training;
    return trace(model_, loss_, trains ? samples_.last() : samples_.evaluation, settings);
  };
  if (settings.micro_batch == 0) return traced();  // a rank that joins others with 0 samples
  const auto family = std::ranges::find_if(families_, [&](const Family& known) {
    BuilderSettings same = known.settings;
    same.micro_batch = settings.micro_batch;
    return same == settings;
  });
  if (family == families_.end()) return families_.emplace_back(Family{settings, traced()}).first;
  if (family->is_compared && !family->scales) return traced();
  std::optional<Graph> scaled = with_micro_batch(family->first, settings.micro_batch);
  if (family->is_compared) return scaled ? std::move(*scaled) : traced();
  Graph second = traced();
  family->is_compared = true;
  family->scales = scaled && equal_programs(*scaled, second);
  return second;
}

MicroBatchSizes& ProgramSizes::of(const TrainOptions& options,
                                  const BatchPlan& batch,
                                  std::int64_t samples) {
  BuilderSettings settings = settings_for(options, device_.traits(), batch, samples);
  device_.allow_tf32(options.precision == Precision::tf32);
  for (const Known& known : known_)
    if (known.settings == settings && known.bucket_mb == options.bucket_mb &&
        known.ranks == batch.ranks && known.sharding == options.sharding)
      return *known.sizes;
  Known known{settings, options.bucket_mb, batch.ranks, options.sharding, nullptr};
  Graph graph = trace_as(settings);
  const std::int64_t bytes = bucket_bytes(options, device_.traits(), graph);
  known.sizes.reset(new MicroBatchSizes(
      device_, std::move(graph), bytes, bucket_rules(options, device_.traits(), batch)));
  if (samples > 0 && options.distillation.on())
    known.sizes->teacher_bytes_ =
        CompiledTeacher(device_, samples_.last(), options, {samples}, reuse_of_environment())
            .bytes();
  if (samples > 0) {
    settings.mode = Mode::evaluation;
    known.sizes->evaluation_.emplace(
        Program(trace_as(settings), device_, known.sizes->space(), reuse_of_environment()));
  }
  return *known_.emplace_back(std::move(known)).sizes;
}

std::size_t ProgramSizes::least_bytes(const TrainOptions& options, const BatchPlan& batch) {
  MicroBatchSizes& sizes = of(options, batch, batch.micro_batch);
  std::size_t least = SIZE_MAX;
  const auto [first, last] = allowed(sizes, options.recompute);
  const MemoryBeside beside = sizes.beside(options, batch);
  for (std::size_t i = first; i < last; ++i) {
    std::vector<ProgramSize> programs{sizes.training(i), *sizes.evaluation()};
    if (const auto size = sizes.orthogonalization(options)) programs.push_back(*size);
    least = std::min(least, sizes.training_bytes(programs, options, beside));
  }
  return least;
}

}  // namespace lockstep
