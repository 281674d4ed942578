// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica_parts.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {
namespace {

/// Flat offset of the metric `name`, -1 where the model has none.
std::int64_t metric_offset(const Graph& graph, const FlatSpace& space, const char* name) {
  for (std::size_t i = 0; i < graph.parameters().size(); ++i)
    if (graph.parameters()[i].kind == ParameterKind::metric && graph.parameters()[i].name == name)
      return space.of(int(i)).offset;
  return -1;
}

}  // namespace

MetricPlaces::MetricPlaces(const Graph& graph, const FlatSpace& space)
    : loss(metric_offset(graph, space, "loss")),
      correct(metric_offset(graph, space, "correct")),
      counted(metric_offset(graph, space, "counted")) {
  LOCKSTEP_ASSERT(loss >= 0);  // trace() refuses a model without
  std::int64_t first = loss, last = loss;
  for (const std::int64_t offset : {correct, counted}) {
    if (offset < 0) continue;
    first = std::min(first, offset);
    last = std::max(last, offset);
  }
  range = {first, last - first + kSegmentAlignment};
}

ReplicaPrograms::ReplicaPrograms(RankContext& rank_context,
                                 const ModelFunction& model,
                                 const LossFunction& loss,
                                 const data::SampleSpec& samples,
                                 const TrainOptions& train_options,
                                 std::vector<std::int64_t> tail_sizes)
    : context(rank_context),
      options(train_options),
      batch(plan_batch(train_options, rank_context.size())),
      programs(context.backend(), model, loss, samples, options, batch, std::move(tail_sizes)) {}

ReplicaParts::ReplicaParts(Backend& backend,
                           Communicator& communicator,
                           const CompiledPrograms& programs,
                           const ProgramBuffers& buffers,
                           const TrainOptions& options,
                           const BatchPlan& batch)
    : metrics(programs.graph(), programs.space()),
      optimizer(backend,
                programs.graph(),
                programs.space(),
                options,
                buffers.parameters->as<float>(),
                buffers.gradients->as<float>()),
      exchange(backend,
               communicator,
               options.reduction,
               programs.space().buckets,
               buffers.gradients->as<float>(),
               batch.shards),
      evaluation_exchange(backend,
                          communicator,
                          options.reduction,
                          {metrics.range},
                          buffers.gradients->as<float>(),
                          evaluation_shards(batch)),
      outcomes(backend),
      sample_weight(backend.allocate_host(sizeof(float), "sample weight")) {}

Schedule training_schedule(const BatchPlan& batch, std::int64_t samples, int rank) {
  return make_schedule({.samples = samples,
                        .micro_batch = batch.micro_batch,
                        .shards = batch.shards,
                        .ranks = batch.ranks,
                        .cluster = batch.cluster},
                       rank);
}

}  // namespace lockstep
