// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/plan/gradient_space.h"
#include "core/step/h2d_staging.h"
#include "core/step/matrix_exchange.h"
#include "core/step/optimizer_step.h"
#include "core/step/owner_exchange.h"
#include "core/step/saved/saved_arrays.h"
#include "core/step/shard_norms.h"
#include "core/step/step_params_upload.h"
#include "core/step/step_status_ring.h"
#include "core/step/weight_average.h"
#include "lockstep/schedule.h"
#include "lockstep/train_options.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/exchange/gradient_exchange.h"

namespace lockstep {

/// Offsets of the loss, the count of correct answers and the count of labels in the flat gradients.
struct MetricPlaces {
  std::int64_t loss = -1;
  std::int64_t correct = -1;  ///< -1 for a regression
  std::int64_t counted = -1;  ///< -1 where no label is ignored
  Bucket range;               ///< holds all of them

  MetricPlaces(const Graph& graph, const FlatSpace& space);
};

/// Bytes that the update's collectives have sent.
struct UpdateSent {
  SentBytes weights = {}, matrices = {};
  SentBytes both() const { return weights + matrices; }
};

/// What a replica reserves memory for in addition to its programs. Constructed on a device to
/// train, and on a DryBackend and a DryCommunicator to compute sizes.
struct ReplicaParts {
  /// Micro-batches in memory that a device may be copying from: see Replica::lend_memory().
  static constexpr int kHeldMicroBatches = 2;

  MetricPlaces metrics;
  Ownership ownership;
  /// Of owners, or of those who share matrices out; null: the ranks' own, in stream order.
  std::unique_ptr<Communicator> owner_communicator;
  GradientExchange exchange;
  std::unique_ptr<OwnerExchange> owners;     ///< null: the optimizer is not sharded
  std::unique_ptr<MatrixExchange> matrices;  ///< null: no rank orthogonalizes for another
  OptimizerStep optimizer;
  WeightAverage average;
  GradientExchange evaluation_exchange;
  StepStatusRing outcomes;
  ShardNorms shard_norms;
  std::unique_ptr<DeviceBuffer> sample_weight;  ///< one float, the source of copies to the device
  StepParamsUpload counters;
  H2dStaging h2d_staging;

  /// `places`: of `gradients`. `upload`: StepParamsUpload's place; null: its own. `graph`, `space`,
  /// `places` and the arrays must outlive it. Throws
  /// ConfigError as OptimizerStep,
  /// OutOfMemory.
  ReplicaParts(Backend& backend,
               Communicator& communicator,
               const Graph& graph,
               const FlatSpace& space,
               float* parameters,
               float* gradients,
               const GradientSpace& places,
               std::uint16_t* rounded,
               const TrainOptions& options,
               const BatchPlan& batch,
               DeviceBuffer* upload);

  /// Whether the update has collectives.
  bool update_exchanges() const { return owners || matrices; }
  /// What it has sent to others.
  UpdateSent update_sent() const;
  /// What was asked for since it had sent that was not done.
  void undo_update(const UpdateSent& sent);
  std::uint64_t partial_sum_bytes() const;
  /// Buffers of both exchanges, of weights on their way to other ranks, of micro-batches that are
  /// copied to the device, of step results and norms that are copied to the host, and of the norms
  /// that the optimizer wants.
  std::uint64_t communication_bytes() const;
};

/// The flat arrays of a replica that checkpoints save.
SavedArrays saved_arrays(Backend& backend,
                         const Graph& graph,
                         const FlatSpace& space,
                         float* parameters,
                         ReplicaParts& parts);

/// Ranks among which matrices are dealt where the optimizer is not sharded: those of a host, one
/// without an optimizer that orthogonalizes.
int ranks_that_share_matrices(const Communicator& communicator, const Optimizer& optimizer);

/// What `options` say of single parameters.
ParameterRules rules_of(const TrainOptions& options);

/// partial_sum_bytes() and communication_bytes() of rank 0, which has the max, on such a device.
std::uint64_t exchange_memory(const Graph& graph,
                              const FlatSpace& space,
                              const GradientSpace& gradients,
                              const TrainOptions& options,
                              const BatchPlan& batch,
                              const DeviceTraits& device);

/// The part of `rank` in a global batch of `samples`.
Schedule training_schedule(const BatchPlan& batch, std::int64_t samples, int rank);

}  // namespace lockstep
