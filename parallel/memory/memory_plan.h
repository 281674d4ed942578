// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/flat_space.h"
#include "core/step/parameter_rates.h"
#include "lockstep/builder.h"
#include "lockstep/data/sources.h"
#include "parallel/memory/image_size_use.h"
#include "parallel/replica/memory_table.h"
#include "parallel/replica/program_sizes.h"

namespace lockstep {

/// A training that is to be planned and not run.
struct PlanRequest {
  ModelFunction model;
  LossFunction loss;
  data::DataSplit data;  ///< its sizes and the shape of its samples
  TrainOptions options;
  int ranks = 1;
  bool on_host = true;  ///< the device is the processor itself
  /// What is known of the model's programs, which requests that differ in options or ranks alone
  /// share; see with_sizes(). Null: nothing.
  std::shared_ptr<ProgramSizes> sizes = {};
  /// Of several hosts, where `lockstep run` has their ranks put snapshots into memory. 0: one host,
  /// or not known.
  int ranks_per_host = 0;
};

/// `request` with a place for the sizes of its programs, unless it has one. A search makes one for
/// itself; several for one model take less time with one for all of them. `device` outlives it.
PlanRequest with_sizes(Backend& device, PlanRequest request);

/// The batch with another micro-batch and without an accumulation; nothing: it cannot be planned
/// so.
std::optional<BatchPlan> batch_with(const PlanRequest& request, std::int64_t micro_batch);

/// The arena while an operator runs: what is live of it, its inputs, results and workspace.
struct StepMemory {
  std::string node;  ///< "layer1.0.conv1 conv2d"
  std::uint64_t live_bytes = 0;
};

/// What one rank of a training would use. Computed by the code that training itself runs: programs
/// are compiled as for a run, and what would own memory is made on a DryBackend.
struct MemoryPlan {
  BatchPlan batch;
  /// `context` is what this process holds with the programs compiled: in memory where the device is
  /// the processor; of a GPU what has gone since it was opened, for its context, libraries and
  /// kernels, and for what others took there meanwhile. Unknown where the GPU does not say.
  MemoryTable table;
  std::vector<ImageSizeUse> other_image_sizes;  ///< where images grow; the arena is the largest
  std::vector<LayerMemory> layers;              ///< see by_layer()
  std::int64_t parameters = 0;  ///< elements that the model has, frozen ones included
  std::int64_t frozen = 0;
  std::vector<ParameterGroupUse> groups;  ///< TrainOptions::groups
  /// Names of the matrices that the optimizer orthogonalizes; none under most. See
  /// core/plan/hidden_matrices.h.
  std::vector<std::string> hidden_matrices;
  std::int64_t hidden_elems = 0;     ///< of these
  double orthogonalizing_flops = 0;  ///< for them in a step, of this rank: Note [Dealt matrices]
  /// One entry an operator of the training program for a whole micro-batch, as they run.
  std::vector<StepMemory> steps;
  std::size_t first_backward_step = 0;  ///< among those; their number where there is none
  std::size_t limited_bytes = 0;        ///< what memory_limit limits: table.on_device()
  /// Of those, parameters, gradients, optimizer state and average. A micro-batch changes none of
  /// it, but where Sharding::gradients divides gradients with some micro-batches alone.
  std::size_t fixed_bytes = 0;
  std::size_t arena_lower_bound = 0;
  /// Of all state as a checkpoint has it. Snapshots take two of these in the memory of each host.
  std::size_t state_bytes = 0;
  double flops_per_step = 0;                ///< of all ranks, for one global batch
  std::vector<Bucket> buckets;              ///< that gradients travel in
  std::uint64_t gradient_window_bytes = 0;  ///< of the gradients: Note [Gradient window]
  /// With Sharding::gradients: why each rank has those of one shard whole; empty: it has not.
  std::string why_whole_gradients;
  std::uint64_t exchange_bytes_per_step = 0;  ///< that this rank sends: Replica::bytes_sent()
};

/// `device` makes the kernels, and is asked for no memory; a GPU holds nothing that allocate()
/// gave, which would count as `context`. `rank` matters little: rank 0 has the largest part, of
/// snapshots too. Throws what a Replica's constructor throws, but for memory that is not there.
MemoryPlan plan_memory(Backend& device, const PlanRequest& request, int rank = 0);

/// The same of rank 0, for searches: nothing where the batch cannot be planned so, or the plan is
/// not within the request's memory_limit.
std::optional<MemoryPlan> try_plan_memory(Backend& device, const PlanRequest& request);

/// What memory_limit limits (MemoryTable::on_device()) at one micro-batch, and the arena.
struct MicroBatchMemory {
  std::size_t arena_bytes = 0, limited_bytes = 0;
};
struct MicroBatchRow {
  std::int64_t micro_batch = 0;
  MicroBatchMemory none, all;  ///< with Recompute::none and Recompute::all
};

/// Rows for micro-batches of 1, 2, 4, ... and the largest that leaves one for each rank, as far as
/// the batch can be planned with them.
std::vector<MicroBatchRow> micro_batch_table(Backend& device, const PlanRequest& request);

/// The largest micro-batch that the global batch, the ranks and a memory_limit allow. Memory does
/// not quite rise from each size to the next (tails and packed copies differ), and not all are
/// looked at: that one fits is certain, that none slightly larger does is not.
struct LargestMicroBatch {
  std::int64_t micro_batch = 0;  ///< 0: not even 1 fits
  std::size_t bytes = 0;         ///< that it needs, or where it is 0, that 1 would need
  bool limited = false;          ///< a larger one that the batch allows does not fit
};

/// With the recomputation that request.options allows; its micro-batch, accumulation and limit do
/// not count. Throws ConfigError: no micro-batch at all can be planned.
LargestMicroBatch largest_micro_batch(Backend& device,
                                      const PlanRequest& request,
                                      std::uint64_t limit);

}  // namespace lockstep
