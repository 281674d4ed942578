// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/replica_parts.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/exec/dry_backend.h"
#include "core/optim/optimizer.h"
#include "core/step/dry_communicator.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

/// Flat offset of the metric `name`, -1 where the model has none.
std::int64_t metric_offset(const Graph& graph, const FlatSpace& space, const char* name) {
  for (std::size_t i = 0; i < graph.parameters().size(); ++i)
    if (graph.parameters()[i].kind == ParameterKind::metric && graph.parameters()[i].name == name)
      return space.of(int(i)).offset;
  return -1;
}

/// Whether ranks orthogonalize for each other: Note [Dealt matrices].
bool deals_matrices(const Communicator& communicator,
                    const Ownership& ownership,
                    const Optimizer& optimizer) {
  if (ownership.divides()) return has_phase(optimizer, UpdatePhase::orthogonalize);
  return ranks_that_share_matrices(communicator, optimizer) > 1;
}

/// Null where the ranks' own will do.
std::unique_ptr<Communicator> make_owner_communicator(Communicator& communicator,
                                                      const Ownership& ownership,
                                                      const Optimizer& optimizer) {
  const int members = ownership.divides() ? communicator.size()
                                          : ranks_that_share_matrices(communicator, optimizer);
  if (members == 1 || (communicator.in_stream_order() && members == communicator.size()))
    return nullptr;
  return communicator.split(communicator.rank() / members, communicator.rank());
}

}  // namespace

int ranks_that_share_matrices(const Communicator& communicator, const Optimizer& optimizer) {
  return has_phase(optimizer, UpdatePhase::orthogonalize) ? communicator.ranks_per_node() : 1;
}

ParameterRules rules_of(const TrainOptions& options) {
  return {.decay_all = options.decay_all,
          .no_decay = options.no_decay,
          .groups = options.groups,
          .layer_decay = options.layer_decay};
}

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

ReplicaParts::ReplicaParts(Backend& backend,
                           Communicator& communicator,
                           const Graph& graph,
                           const FlatSpace& space,
                           float* parameters,
                           float* gradients,
                           const GradientSpace& places,
                           std::uint16_t* rounded,
                           const TrainOptions& options,
                           const BatchPlan& batch,
                           DeviceBuffer* upload)
    : metrics(graph, space),
      ownership(space, communicator.rank()),
      owner_communicator(make_owner_communicator(communicator, ownership, options.optimizer)),
      exchange(backend,
               communicator,
               options.reduction,
               places.buckets(),
               gradients,
               batch.shards,
               batch.dealt ? batch.cluster : 0,
               places.summed(gradients)),
      owners(ownership.divides() ? std::make_unique<OwnerExchange>(
                                       backend,
                                       owner_communicator ? *owner_communicator : communicator,
                                       exchange.gather_communicators(),
                                       space,
                                       gradients,
                                       places)
                                 : nullptr),
      matrices(deals_matrices(communicator, ownership, options.optimizer)
                   ? std::make_unique<MatrixExchange>(
                         owner_communicator ? *owner_communicator : communicator,
                         graph,
                         space,
                         gradients)
                   : nullptr),
      optimizer(backend,
                graph,
                space,
                options.optimizer,
                rules_of(options),
                {.value = options.clip_value, .agc = options.clip_agc},
                parameters,
                gradients,
                places,
                owners ? nullptr : rounded,
                ownership,
                owners.get()),
      average(backend, ownership, owners.get(), options.ema, batch.global_batch, parameters),
      evaluation_exchange(backend,
                          communicator,
                          options.reduction,
                          {metrics.range},
                          gradients,
                          evaluation_shards(batch),
                          0,
                          {},
                          exchange.communicators()),
      outcomes(backend),
      shard_norms(backend,
                  graph,
                  space,
                  gradients,
                  places,
                  options.noise_scale_every,
                  (batch.shards - 1) / batch.ranks + 1),
      sample_weight(backend.allocate_host(sizeof(float), "sample weight")),
      counters(backend, graph, kHeldMicroBatches, upload),
      h2d_staging(backend, graph, kHeldMicroBatches) {}

UpdateSent ReplicaParts::update_sent() const {
  return {owners ? owners->sent() : SentBytes(), matrices ? matrices->sent() : SentBytes()};
}

void ReplicaParts::undo_update(const UpdateSent& sent) {
  if (owners) owners->undo(sent.weights);
  if (matrices) matrices->undo(sent.matrices);
}

std::uint64_t ReplicaParts::partial_sum_bytes() const {
  return exchange.partial_sum_bytes() + evaluation_exchange.partial_sum_bytes();
}

std::uint64_t ReplicaParts::communication_bytes() const {
  return exchange.communication_bytes() + evaluation_exchange.communication_bytes() +
         (owners ? owners->bytes() : 0) + outcomes.bytes() + optimizer.norm_bytes() +
         shard_norms.bytes() + sample_weight->bytes() + counters.bytes() + h2d_staging.bytes();
}

std::uint64_t exchange_memory(const Graph& graph,
                              const FlatSpace& space,
                              const GradientSpace& gradients,
                              const TrainOptions& options,
                              const BatchPlan& batch,
                              const DeviceTraits& device) {
  DryBackend nothing(device);
  DryCommunicator alone(0, batch.ranks);
  // A communicator of no ranks knows no hosts, and the layout does not depend on them.
  FlatSpace one_level = space;
  one_level.ranks_per_host = 1;
  const auto flat = nothing.allocate(std::size_t(space.elems) * sizeof(float), "parameters");
  const ReplicaParts parts(nothing,
                           alone,
                           graph,
                           one_level,
                           flat->as<float>(),
                           flat->as<float>(),
                           gradients,
                           nullptr,
                           options,
                           batch,
                           nullptr);
  return parts.partial_sum_bytes() + parts.communication_bytes();
}

Schedule training_schedule(const BatchPlan& batch, std::int64_t samples, int rank) {
  return make_schedule({.samples = samples,
                        .micro_batch = batch.micro_batch,
                        .shards = batch.shards,
                        .ranks = batch.ranks,
                        .cluster = batch.cluster,
                        .dealt = batch.dealt},
                       rank);
}

}  // namespace lockstep
