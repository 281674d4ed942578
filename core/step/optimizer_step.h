// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/program.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/plan/gradient_space.h"
#include "core/step/flat_array.h"
#include "core/step/matrix_exchange.h"
#include "core/step/owned_units.h"
#include "core/step/owner_exchange.h"
#include "core/step/parameter_rates.h"
#include "core/step/tensor_norms.h"
#include "core/step/unit_clipping.h"
#include "lockstep/optimizer.h"

namespace lockstep {

/// Clipping of single gradients; 0: none. That of the global norm is StepSums::clip_norm.
struct ClipRules {
  float value = 0;  ///< Backend::clip_values()
  float agc = 0;    ///< UnitClip::factor
};

/// Applies exchanged gradients to the flat parameters: clipping, the optimizer's update, phase by
/// phase (Note [Phases of an update]), and the running statistics. Holds the optimizer's state
/// arrays, and the norms of tensors where it wants them. Of a sharded optimizer a rank has, and
/// updates, what it owns: Note [Sharded optimizer].
class OptimizerStep {
 public:
  /// `places`: of `gradients`; divided only with owners, and of an optimizer that does not
  /// orthogonalize. `rounded`: the bf16 weight copy that updates write as well; null: none.
  /// `owners`: null: the optimizer is not sharded. They must outlive it, as `ownership` and the
  /// flat arrays. Throws what parameter_rates() and UnitClipping() do, and OutOfMemory.
  OptimizerStep(Backend& backend,
                const Graph& graph,
                const FlatSpace& space,
                const Optimizer& optimizer,
                const ParameterRules& rules,
                const ClipRules& clip,
                float* parameters,
                float* gradients,
                const GradientSpace& places,
                std::uint16_t* rounded,
                const Ownership& ownership,
                OwnerExchange* owners);

  /// What runs in the phase `orthogonalize`: bound, and alive as long as this. To be called before
  /// the first update of an optimizer that has the phase.
  /// `program`: of orthogonalization() of the same graph. `matrices`: null: every rank
  /// orthogonalizes all of them.
  void set_orthogonalization(Program& program, MatrixExchange* matrices);

  /// Backend::conclude_step() with the trained parameters' gradients as `sums.tensors`, in
  /// declaration order; the caller fills the other members but `gradients`. With owners a
  /// collective.
  void conclude(StepSums sums, StepOutcome* outcome);

  /// Update `step` (from 0) of the trained parameters. Gradients are clipped, and may hold the
  /// optimizer's directions afterwards. `outcome`, in device memory, scales or skips the update;
  /// null: neither. `counters`: see OptimizerUpdate. With owners, or where matrices are dealt, a
  /// collective.
  void update(std::int64_t step,
              float lr,
              const StepOutcome* outcome,
              const StepCounters* counters);
  /// The counters that update `step` at rate `lr` reads from device memory.
  StepCounters counters(std::int64_t step, float lr) const;
  /// What conclude() and update() exchange among owners, without what they compute: on a DryBackend
  /// for plans. `matrices`: as in set_orthogonalization().
  void exchange_alone(MatrixExchange* matrices);
  /// After update(): value += momentum * (sum - weight * value), unless `outcome` is bad.
  void update_running_statistics(const StepOutcome* outcome);

  std::size_t state_bytes() const;
  /// Of the norms of tensors and units.
  std::size_t norm_bytes() const;
  /// The optimizer's arrays, named by state_names().
  std::vector<FlatArray> state_arrays();

 private:
  /// Trained parameters within a stretch that the rank owns.
  struct Part {
    OwnedStretch stretch;
    std::vector<FlatRange> all = {};      // neighbours with equal settings are one
    std::vector<FlatRange> tensors = {};  // those that have norms
    std::vector<FlatRange> others = {};   // without them
  };

  void clip_gradients(const StepOutcome* outcome);
  void run(UpdatePhase phase, OptimizerUpdate& update);
  void run_rows(OptimizerUpdate& update);
  void start_norms_of_gradients(TensorNorms& norms, double* result);
  void set_arrays(OptimizerUpdate& update, const OwnedStretch& stretch);
  double* row_norms() { return row_norms_ ? row_norms_->as<double>() : nullptr; }
  void orthogonalize();
  double* direction_norms();
  double* tensor_elems();

  Backend& backend_;
  Optimizer optimizer_;
  float* parameters_;
  float* gradients_;
  const GradientSpace& places_;
  std::uint16_t* rounded_;
  float clip_value_;
  std::vector<UpdatePhase> phases_;
  OwnerExchange* owners_;
  std::vector<Part> parts_;
  std::optional<TensorNorms> tensor_norms_, gradient_norms_;  // of those that have norms; of all
  std::optional<UnitClipping> unit_clipping_;
  Program* orthogonalization_ = nullptr;
  MatrixExchange* matrices_ = nullptr;
  std::vector<std::pair<NodeId, NodeId>> nodes_of_matrix_;  // of orthogonalization_: first, end
  // [3, tensor_norms_]: squared norms of weights, of directions, elements; or null
  std::unique_ptr<DeviceBuffer> norms_;
  std::optional<OwnedUnits> rows_;           // of those that have norms, where a phase has them
  std::unique_ptr<DeviceBuffer> row_norms_;  // of rows in parts; null: there are none
  std::unique_ptr<DeviceBuffer> squares_;    // [trained], of gradients; null without owners
  std::vector<FlatRange> tensors_;           // trained, in declaration order, for the norm
  std::vector<RunningStatistic> statistics_;
  std::vector<std::unique_ptr<DeviceBuffer>> state_;
};

}  // namespace lockstep
