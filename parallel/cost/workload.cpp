// SPDX-License-Identifier: Apache-2.0
#include "parallel/cost/workload.h"

#include <algorithm>

#include "core/exec/roofline.h"
#include "core/plan/matrix_deal.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/replica/compiled_programs.h"

namespace lockstep {
namespace {

double seconds_of(const Graph& graph, const Node& node, const DevicePeaks& peaks) {
  if (node.op->is_view()) return 0;
  const std::vector<TensorType> inputs = graph.types_of(node.inputs);
  const Cost cost = node.op->cost(inputs, graph.types_of(node.outputs));
  return min_seconds(cost, computes_in_bf16(inputs), peaks);
}

}  // namespace

PlannedWork plan_work(Backend& device, const PlanRequest& request, const DevicePeaks& peaks) {
  TrainOptions options = request.options;
  options.memory_limit = 0;
  if (options.recompute == Recompute::automatic) options.recompute = Recompute::none;
  const BatchPlan batch = plan_batch(options, request.ranks);
  const CompiledPrograms programs(
      device, request.model, request.loss, request.data.train->spec(), options, batch, {});
  const Graph& graph = programs.graph();
  const auto& buckets_after = programs.whole().plan().buckets_after_node;

  PlannedWork planned;
  Workload& work = planned.work;
  work.micro_batch = double(batch.micro_batch);
  work.reduction = options.reduction;
  work.overlap = options.overlap;
  for (const Bucket& bucket : programs.space().buckets)
    work.buckets.push_back({.bytes = double(bucket.elems) * sizeof(float),
                            .ready = 0,
                            .gathered_bytes = double(weight_bytes(bucket))});
  double forward_s = 0, backward_s = 0;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    (node.phase == NodePhase::forward ? forward_s : backward_s) += seconds_of(graph, node, peaks);
    for (const int bucket : buckets_after[i]) work.buckets[std::size_t(bucket)].ready = backward_s;
  }
  for (BucketWork& bucket : work.buckets)
    bucket.ready = backward_s > 0 ? std::min(1.0, bucket.ready / backward_s) : 1;
  const double both = forward_s + backward_s;
  work.backward_share = both > 0 ? backward_s / both : 0;
  planned.per_sample_s = both / double(batch.micro_batch);
  // Weights are read and written, gradients read, and so is each array of the state.
  const double passes = 3 + 2 * double(state_arrays(options.optimizer));
  planned.fixed_s = passes * double(programs.space().elems) * sizeof(float) / peaks.bytes;
  if (const auto& program = programs.orthogonalization()) {
    const double share = std::ranges::max(dealt_work(graph, batch.ranks));  // as on one host
    for (const Node& node : program->graph().nodes())
      planned.fixed_s += share * seconds_of(program->graph(), node, peaks);
  }
  return planned;
}

}  // namespace lockstep
