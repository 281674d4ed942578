// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/program.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/step/flat_array.h"
#include "core/step/parameter_rates.h"
#include "lockstep/optimizer.h"

namespace lockstep {

/// Applies exchanged gradients to the flat parameters: clipping, the optimizer's update, phase by
/// phase and bucket by bucket (Note [Phases of an update]), and the running statistics. Holds the
/// optimizer's state arrays, and the norms of tensors where it wants them.
class OptimizerStep {
 public:
  /// `rounded`: the bf16 weight copy that updates write as well; null: none.
  /// Throws what parameter_rates() does, and OutOfMemory.
  OptimizerStep(Backend& backend,
                const Graph& graph,
                const FlatSpace& space,
                const Optimizer& optimizer,
                const ParameterRules& rules,
                float* parameters,
                float* gradients,
                std::uint16_t* rounded);

  /// What runs in the phase `orthogonalize`: bound, and alive as long as this. To be called before
  /// the first update of an optimizer that has the phase.
  void set_orthogonalization(Program& program) { orthogonalization_ = &program; }

  /// Backend::conclude_step() with the trained parameters' gradients as `sums.tensors`, in
  /// declaration order; the caller fills the other members but `gradients`.
  void conclude(StepSums sums, StepOutcome* outcome);

  /// Update `step` (from 0) of the trained parameters. Gradients may hold the optimizer's
  /// directions afterwards. `outcome`, in device memory, scales or skips the update; null: neither.
  /// `counters`: see OptimizerUpdate.
  void update(std::int64_t step,
              float lr,
              const StepOutcome* outcome,
              const StepCounters* counters);
  /// The counters that update `step` at rate `lr` reads from device memory.
  StepCounters counters(std::int64_t step, float lr) const;
  /// After update(): value += momentum * (sum - weight * value), unless `outcome` is bad.
  void update_running_statistics(const StepOutcome* outcome);

  std::size_t state_bytes() const;
  /// Of the norms of tensors.
  std::size_t norm_bytes() const { return norms_ ? norms_->bytes() : 0; }
  /// The optimizer's arrays, named by state_names(). Laid out as the parameters are.
  std::vector<FlatArray> state_arrays();

 private:
  /// What one bucket holds of the trained parameters.
  struct BucketRanges {
    std::vector<FlatRange> all;      // neighbours with equal settings are one
    std::vector<FlatRange> tensors;  // those that have norms, numbered one after another
    std::vector<FlatRange> others;   // without them
  };

  void run(UpdatePhase phase, OptimizerUpdate& update);
  /// Squared norms of all tensors in `values`, to norms_ from number `first` on.
  void start_norms(const float* values, std::int64_t first);

  Backend& backend_;
  Optimizer optimizer_;
  float* parameters_;
  float* gradients_;
  std::uint16_t* rounded_;
  std::vector<UpdatePhase> phases_;
  std::vector<BucketRanges> buckets_;
  std::int32_t norm_count_ = 0;  // of tensors that have norms
  Program* orthogonalization_ = nullptr;
  std::unique_ptr<DeviceBuffer> norms_;  // [2, norm_count_]: of weights, of directions; or null
  std::vector<FlatRange> tensors_;       // in declaration order, for the norm
  std::vector<RunningStatistic> statistics_;
  std::vector<std::unique_ptr<DeviceBuffer>> state_;
};

}  // namespace lockstep
