// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/gradient_division.h"

#include <fmt/format.h>

#include "core/base/parameter_names.h"
#include "core/optim/optimizer.h"

namespace lockstep {
namespace {

std::string reason_for_whole(const TrainOptions& options, const BatchPlan& batch) {
  if (batch.shards < batch.micro_batches)
    return name_parameters(
        fmt::format("a shard has several micro-batches, which add up in place (`shards` {} has one "
                    "in each)",
                    batch.micro_batches));
  if (batch.cluster > 1) return "batch norm spans several ranks";
  if (options.overlap == Overlap::off) return name_parameters("`overlap` is off");
  if (has_phase(options.optimizer, UpdatePhase::orthogonalize))
    return fmt::format("{} works on whole matrices", name_of(options.optimizer));
  return {};
}

}  // namespace

GradientSpace divide_gradients(const Graph& graph,
                               const FlatSpace& space,
                               const TrainOptions& options,
                               const BatchPlan& batch,
                               const DeviceTraits& device) {
  if (!batch.dealt) return GradientSpace(space);
  if (std::string why = reason_for_whole(options, batch); !why.empty())
    return GradientSpace(space, std::move(why));
  // One is written while as many as the exchange works on at once are on their way.
  return {space, graph, 1 + device.buckets_in_flight};
}

}  // namespace lockstep
