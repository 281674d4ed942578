// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/program_sizes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/nn/trace.h"
#include "parallel/replica/memory_fit.h"
#include "parallel/replica/replica_parts.h"

namespace lockstep {
namespace {

/// Of the choices that `recompute` allows, the first and one past the last.
std::pair<std::size_t, std::size_t> allowed(const std::vector<RecomputeChoice>& choices,
                                            Recompute recompute) {
  if (recompute == Recompute::none) return {0, 1};
  if (recompute == Recompute::automatic) return {0, choices.size()};
  const std::size_t all = index_of_all(choices);
  return {all, all + 1};
}

}  // namespace

MicroBatchSizes::MicroBatchSizes(Backend& device, Graph graph, std::int64_t bucket_bytes)
    : device_(device),
      graph_(std::move(graph)),
      space_(lay_out(graph_, bucket_bytes)),
      choices_(recompute_choices(graph_)),
      training_(choices_.size()) {}

const ProgramSize& MicroBatchSizes::training(std::size_t choice) {
  std::optional<ProgramSize>& size = training_[choice];
  if (!size)
    size.emplace(Program(
        recompute(graph_, choices_[choice].dropped), device_, space_, reuse_of_environment()));
  return *size;
}

ProgramSizes::ProgramSizes(Backend& device,
                           ModelFunction model,
                           LossFunction loss,
                           const data::SampleSpec& samples)
    : device_(device), model_(std::move(model)), loss_(std::move(loss)), samples_(samples) {}

MicroBatchSizes& ProgramSizes::of(const TrainOptions& options,
                                  const BatchPlan& batch,
                                  std::int64_t samples) {
  Builder::Settings settings = settings_for(options, device_.traits(), batch, samples);
  device_.allow_tf32(options.precision == Precision::tf32);
  for (const Known& known : known_)
    if (known.settings == settings && known.bucket_mb == options.bucket_mb) return *known.sizes;
  Known known{settings, options.bucket_mb, nullptr};
  Graph graph = trace(model_, loss_, samples_, settings);
  const std::int64_t bytes = bucket_bytes(options, device_.traits(), graph);
  known.sizes.reset(new MicroBatchSizes(device_, std::move(graph), bytes));
  if (samples > 0) {
    settings.mode = Mode::evaluation;
    known.sizes->evaluation_.emplace(Program(trace(model_, loss_, samples_, settings),
                                             device_,
                                             known.sizes->space(),
                                             reuse_of_environment()));
  }
  return *known_.emplace_back(std::move(known)).sizes;
}

std::size_t ProgramSizes::least_bytes(const TrainOptions& options, const BatchPlan& batch) {
  MicroBatchSizes& sizes = of(options, batch, batch.micro_batch);
  std::size_t least = SIZE_MAX;
  const auto [first, last] = allowed(sizes.choices(), options.recompute);
  for (std::size_t i = first; i < last; ++i) {
    const std::array programs{sizes.training(i), *sizes.evaluation()};
    least = std::min(least, training_bytes(programs, sizes.space(), options.optimizer));
  }
  return least + exchange_memory(sizes.graph(), sizes.space(), options, batch, device_.traits());
}

}  // namespace lockstep
