// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/step/h2d_staging.h"
#include "core/step/optimizer_step.h"
#include "core/step/shard_norms.h"
#include "core/step/step_params_upload.h"
#include "core/step/step_status_ring.h"
#include "lockstep/schedule.h"
#include "lockstep/train_options.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/exchange/gradient_exchange.h"

namespace lockstep {

/// Where the loss and the number of correct answers lie in the flat gradient space.
struct MetricPlaces {
  std::int64_t loss = -1;
  std::int64_t correct = -1;  ///< -1 for a regression
  std::int64_t counted = -1;  ///< -1 where no label is ignored
  Bucket range;               ///< holds all of them

  MetricPlaces(const Graph& graph, const FlatSpace& space);
};

/// Everything beside its programs that a replica reserves memory for. Made on a device to train,
/// and on a DryBackend and a DryCommunicator to learn the sizes.
struct ReplicaParts {
  /// Micro-batches in memory that a device may be copying from: see Replica::lend_memory().
  static constexpr int kHeldMicroBatches = 2;

  MetricPlaces metrics;
  OptimizerStep optimizer;
  GradientExchange exchange;
  GradientExchange evaluation_exchange;
  StepStatusRing outcomes;
  ShardNorms shard_norms;
  std::unique_ptr<DeviceBuffer> sample_weight;  ///< a float that copies are made from
  StepParamsUpload counters;
  H2dStaging h2d_staging;

  /// `graph`, `space` and the flat arrays must outlive it. Throws ConfigError as OptimizerStep,
  /// OutOfMemory.
  ReplicaParts(Backend& backend,
               Communicator& communicator,
               const Graph& graph,
               const FlatSpace& space,
               float* parameters,
               float* gradients,
               std::uint16_t* rounded,
               const TrainOptions& options,
               const BatchPlan& batch);

  std::uint64_t pending_sum_bytes() const;
  /// Buffers of both exchanges, micro-batches on their way to the device, and the results and norms
  /// of steps on theirs to the host.
  std::uint64_t communication_bytes() const;
};

/// pending_sum_bytes() and communication_bytes() of rank 0, which has the most, on such a device.
std::uint64_t exchange_memory(const Graph& graph,
                              const FlatSpace& space,
                              const TrainOptions& options,
                              const BatchPlan& batch,
                              const DeviceTraits& device);

/// The part of `rank` in a global batch of `samples`.
Schedule training_schedule(const BatchPlan& batch, std::int64_t samples, int rank);

}  // namespace lockstep
