// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/simulation.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/host/process_memory.h"
#include "lockstep/trainer.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"
#include "parallel/comm/watched_communicator.h"
#include "parallel/replica/compiled_programs.h"
#include "parallel/replica/replica_parts.h"
#include "parallel/simulation/simulated_device.h"

namespace lockstep::simulation {
namespace {

/// Samples without content, of which it counts how often each was loaded.
class CountedSamples final : public data::Dataset {
 public:
  CountedSamples(const data::SampleSpec& spec, std::int64_t size) : spec_(spec), size_(size) {}

  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void load(std::uint64_t epoch, std::int64_t index, std::byte*, std::byte*) const override {
    std::vector<std::uint8_t>& counts = loads_[epoch];
    counts.resize(std::size_t(size_));
    std::uint8_t& count = counts[std::size_t(index)];
    if (count < UINT8_MAX) ++count;
  }
  void load_batch(std::uint64_t epoch,
                  std::span<const std::int64_t> indices,
                  std::byte* input,
                  std::byte* target) const override {
    for (const std::int64_t index : indices) load(epoch, index, input, target);
  }
  std::int32_t label(std::int64_t) const override { return 0; }
  std::string describe() const override { return "samples without content"; }
  std::uint64_t fingerprint() const override {
    return random_key(std::uint64_t(size_), describe());
  }

  std::map<std::uint64_t, std::map<int, std::int64_t>> loads() const {
    std::map<std::uint64_t, std::map<int, std::int64_t>> result;
    for (const auto& [epoch, counts] : loads_)
      for (const std::uint8_t count : counts) ++result[epoch][count];
    return result;
  }

 private:
  const data::SampleSpec spec_;
  const std::int64_t size_;
  mutable std::map<std::uint64_t, std::vector<std::uint8_t>> loads_;  // by one thread: no workers
};

class SimulatedRank final : public RankContext {
 public:
  SimulatedRank(Cluster& cluster,
                int rank,
                const SimulationRequest& request,
                SharedPrograms& programs)
      : device_(cluster, rank, position()),
        host_(communicator(cluster, rank, request, false)),
        of_devices_(cluster.options().device.gpu ? communicator(cluster, rank, request, true)
                                                 : nullptr),
        programs_(programs) {}

  Backend& backend() override { return device_; }
  Communicator& communicator() override { return of_devices_ ? *of_devices_ : *host_; }
  Communicator& host_communicator() override { return *host_; }
  SharedPrograms* shared_programs() override { return &programs_; }

 private:
  /// That on host memory as a Job's, which knows where this rank waits.
  std::unique_ptr<Communicator> communicator(Cluster& cluster,
                                             int rank,
                                             const SimulationRequest& request,
                                             bool in_stream_order) {
    auto made = make_simulated_communicator(cluster, rank, in_stream_order);
    if (!in_stream_order) made = make_watched_communicator(std::move(made), position(), false);
    return request.wrap_communicator ? request.wrap_communicator(rank, std::move(made))
                                     : std::move(made);
  }

  SimulatedDevice device_;
  std::unique_ptr<Communicator> host_, of_devices_;
  SharedPrograms& programs_;
};

Expression tree_of(std::span<const Expression> shards) {
  if (shards.size() == 1) return shards[0];
  std::size_t half = 1;
  while (2 * half < shards.size()) half *= 2;
  return sum_of(tree_of(shards.first(half)), tree_of(shards.subspan(half)));
}

void expect_sums(Cluster& cluster, const SimulationRequest& request, SimulationResult& result) {
  const int ranks = request.cluster.ranks;
  const std::int64_t batch = request.options.global_batch;
  const BatchPlan plan = plan_batch(request.options, ranks);
  std::int64_t min = plan.micro_batches, max = 0;
  for (int r = 0; r < ranks; ++r) {
    std::int64_t own = 0;
    for (const ShardWork& shard : training_schedule(plan, batch, r).work)
      own += std::ssize(shard.micro_batches);
    min = std::min(min, own);
    max = std::max(max, own);
  }
  result.min_micro_batches = min;
  result.max_micro_batches = max;
  // Libraries add in an order of their own.
  if (!request.cluster.traces_sums || request.options.reduction == Reduction::fast) return;
  const Expression whole = expected_sum(request.options, ranks, batch);
  const std::int64_t tail = request.dataset_size % batch;
  const std::int64_t steps_per_epoch = (request.dataset_size + batch - 1) / batch;
  for (std::int64_t step = 0; step < request.options.steps; ++step) {
    const bool is_short = tail > 0 && (step + 1) % steps_per_epoch == 0;
    cluster.expect_sum(step, is_short ? expected_sum(request.options, ranks, tail) : whole);
  }
}

/// Elements that all ranks together update in a step: each rank those of whole buckets, one rank
/// those of sharded ones.
std::int64_t updated_elems(const Graph& graph, const FlatSpace& space, int ranks) {
  std::int64_t elems = 0;
  for (const Segment& segment : space.segments) {
    const Parameter& parameter = graph.parameters()[std::size_t(segment.parameter)];
    if (parameter.kind != ParameterKind::trained || parameter.frozen) continue;
    for (const Bucket& bucket : space.buckets) {
      const std::int64_t begin = std::max(segment.offset, bucket.offset);
      const std::int64_t end =
          std::min(segment.offset + segment.elems, bucket.offset + bucket.elems);
      elems += std::max<std::int64_t>(end - begin, 0) * (bucket.sharded ? 1 : ranks);
    }
  }
  return elems;
}

/// In a rank's own fiber.
void train(Cluster& cluster,
           int rank,
           const SimulationRequest& request,
           const std::shared_ptr<const data::Dataset>& samples,
           std::unique_ptr<SimulatedRank>& own,
           SharedPrograms& programs,
           SimulationResult& result) {
  own = std::make_unique<SimulatedRank>(cluster, rank, request, programs);
  SimulatedRank& context = *own;
  TrainOptions options = request.options;
  options.workers = 0;
  options.accepted = [&](bool) {
    result.startup[std::size_t(rank)] = cluster.traffic(rank);
    result.startup_s = std::max(result.startup_s, cluster.scheduler().now());
    if (rank == 0) result.startup_exposed_s = cluster.device().exposed();
  };
  if (request.change_options) request.change_options(rank, options);
  Trainer trainer(context, request.model, request.loss, options);
  trainer.fit({.train = samples, .validation = nullptr});
}

}  // namespace

Expression expected_sum(const TrainOptions& options, int ranks, std::int64_t samples) {
  const BatchPlan plan = plan_batch(options, ranks);
  std::vector<Expression> shards;
  for (int slot = 0; slot < plan.cluster; ++slot) {
    const Schedule all = make_schedule({.samples = samples,
                                        .micro_batch = plan.micro_batch,
                                        .shards = plan.shards,
                                        .ranks = plan.cluster,
                                        .cluster = plan.cluster},
                                       slot);
    for (const ShardWork& shard : all.work) {
      Expression sum = kZero;
      for (const MicroBatch& micro_batch : shard.micro_batches)
        sum = sum_of(sum, leaf(std::uint64_t(micro_batch.first_sample)));
      shards.push_back(sum);
    }
  }
  return tree_of(shards);
}

SimulationResult simulate(const SimulationRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  const int ranks = request.cluster.ranks;
  SimulationResult result;
  result.startup.resize(std::size_t(ranks));
  Cluster cluster(request.cluster);
  for (const int rank : request.pictured_ranks) cluster.keep_spans(rank);
  if (!request.pictured_ranks.empty()) cluster.links().keep_uses();
  expect_sums(cluster, request, result);
  const auto samples = std::make_shared<CountedSamples>(request.samples, request.dataset_size);
  const std::shared_ptr<const data::Dataset> source =
      request.wrap_samples ? request.wrap_samples(samples) : samples;
  SharedPrograms programs;
  // Programs that ranks share know one of them: all live until none computes.
  std::vector<std::unique_ptr<SimulatedRank>> contexts(static_cast<std::size_t>(ranks));
  result.ends = cluster.scheduler().run([&](int rank) {
    train(cluster, rank, request, source, contexts[std::size_t(rank)], programs, result);
  });
  contexts.clear();
  for (int r = 0; r < ranks; ++r) result.all.push_back(cluster.traffic(r));
  StepEnd before{result.startup_s, result.startup_exposed_s};
  for (const auto& [step, end] : cluster.step_ends()) {
    result.steps.push_back({before.time, end.time, end.exposed - before.exposed});
    before = end;
  }
  result.kernels = cluster.matches();
  result.loads = samples->loads();
  if (programs.programs) {
    result.parameter_elems = programs.programs->space().elems;
    result.expected_elems =
        std::ssize(result.steps) *
        updated_elems(programs.programs->graph(), programs.programs->space(), ranks);
  }
  result.tree = cluster.first_sum();
  result.checked_elems = cluster.checked_elems();
  result.wrong_sum_count = cluster.wrong_sum_count();
  result.wrong_sums = cluster.wrong_sums();
  result.spans = cluster.spans();
  result.link_uses = cluster.links().uses();
  result.peak_bytes = peak_resident_bytes();
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace lockstep::simulation
