// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/step/flat_array.h"
#include "core/step/parameter_rates.h"
#include "lockstep/optimizer.h"

namespace lockstep {

/// Applies exchanged gradients to the flat parameters: clipping, one fused update per bucket, and
/// the running statistics. Holds the optimizer's state arrays.
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
                const float* gradients,
                std::uint16_t* rounded);

  /// Backend::conclude_step() with the trained parameters' gradients as `sums.tensors`, in
  /// declaration order; the caller fills the other members but `gradients`.
  void conclude(StepSums sums, StepOutcome* outcome);

  /// Update `step` (from 0) of one bucket's trained parameters. `outcome`, in device memory, scales
  /// or skips the update; null: neither. `counters`: see OptimizerUpdate.
  void update_bucket(int bucket,
                     std::int64_t step,
                     float lr,
                     const StepOutcome* outcome,
                     const StepCounters* counters);
  /// The counters that update `step` at rate `lr` reads from device memory.
  StepCounters counters(std::int64_t step, float lr) const;
  /// After the last bucket: value += momentum * (sum - weight * value), unless `outcome` is bad.
  void update_running_statistics(const StepOutcome* outcome);

  std::size_t state_bytes() const;
  /// The optimizer's arrays, named by state_names(). Laid out as the parameters are.
  std::vector<FlatArray> state_arrays();

 private:
  Backend& backend_;
  Optimizer optimizer_;
  float* parameters_;
  const float* gradients_;
  std::uint16_t* rounded_;
  std::vector<std::vector<FlatRange>> ranges_of_bucket_;
  std::vector<FlatRange> tensors_;  // in declaration order, for the norm
  std::vector<RunningStatistic> statistics_;
  std::vector<std::unique_ptr<DeviceBuffer>> state_;
};

}  // namespace lockstep
