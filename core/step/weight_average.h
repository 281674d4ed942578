// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/exec/backend.h"
#include "core/step/flat_array.h"
#include "core/step/owner_exchange.h"
#include "lockstep/ema.h"

namespace lockstep {

/// The moving average of the weights of one rank: a flat array next to theirs, of what it owns
/// (Note [Sharded optimizer]). Where `ema` is off it has no memory, and its functions do nothing.
class WeightAverage {
 public:
  /// `parameters`: the flat weights, which must outlive it, as `ownership` and `owners` (null: it
  /// is not divided). Throws OutOfMemory.
  WeightAverage(Backend& backend,
                const Ownership& ownership,
                OwnerExchange* owners,
                const Ema& ema,
                std::int64_t global_batch,
                float* parameters);

  bool on() const { return average_ != nullptr; }
  /// The average of no update: the weights as they are.
  void begin();
  /// After update `step` (from 0), with everything that belongs to it: enqueued. `outcome` and
  /// `counters` as for OptimizerUpdate.
  void update(std::int64_t step, const StepOutcome* outcome, const StepCounters* counters);
  /// What StepCounters::average_rate is to hold for that update.
  float rate(std::int64_t step) const;
  /// The weights become the average and the average the weights; twice: as before, and on all ranks
  /// the fp32 values of all owners. The caller renews what is derived of the weights. Between
  /// steps; with owners a collective.
  void swap();

  /// Nothing where it is off.
  std::optional<FlatArray> array();
  std::size_t bytes() const { return average_ ? average_->bytes() : 0; }

 private:
  Backend& backend_;
  Ema ema_;
  std::int64_t global_batch_;
  const Ownership& ownership_;
  OwnerExchange* owners_;
  float* parameters_;
  std::unique_ptr<DeviceBuffer> average_;
};

}  // namespace lockstep
