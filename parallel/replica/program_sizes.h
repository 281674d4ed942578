// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/exec/sizing_backend.h"
#include "core/plan/recompute.h"
#include "parallel/replica/compiled_programs.h"

namespace lockstep {

/// Next to a run's programs: where its gradients lie, and the bytes of the exchange and the
/// teacher.
struct MemoryBeside {
  GradientSpace gradients;
  std::size_t bytes = 0;
};

/// Memory of the programs for micro-batches of one size.
class MicroBatchSizes {
 public:
  /// Of the training program: its parameters and metrics.
  const Graph& graph() const { return graph_; }
  const FlatSpace& space() const { return space_; }
  /// Computed at the first call; the first choice drops nothing.
  const std::vector<RecomputeChoice>& choices();
  /// With the recomputation of choices()[choice].
  const ProgramSize& training(std::size_t choice);
  /// Nothing for micro-batches of 0 samples.
  const std::optional<ProgramSize>& evaluation() const { return evaluation_; }
  /// What does not depend on a choice of recomputation.
  MemoryBeside beside(const TrainOptions& options, const BatchPlan& batch) const;
  /// What rank 0 reserves on its device for `programs`, with the teacher and the exchange.
  std::size_t training_bytes(std::span<const ProgramSize> programs,
                             const TrainOptions& options,
                             const MemoryBeside& beside) const;
  /// See compile_orthogonalization(). Nothing under most optimizers.
  std::optional<ProgramSize> orthogonalization(const TrainOptions& options);

 private:
  friend class ProgramSizes;
  MicroBatchSizes(Backend& device,
                  Graph graph,
                  std::int64_t bucket_bytes,
                  const BucketRules& rules);

  Backend& device_;
  Graph graph_;
  FlatSpace space_;
  std::vector<RecomputeChoice> choices_;         // empty: not asked for
  std::map<std::size_t, ProgramSize> training_;  // by choice, those asked for
  std::optional<ProgramSize> evaluation_, orthogonalization_;
  std::size_t teacher_bytes_ = 0;  // see CompiledTeacher; 0 where there is none
};

/// Memory of a model's programs by all that they depend on: micro-batch, precision, batch norm,
/// frozen parameters, recomputation, and the padding for so many ranks. A search for what fits
/// needs the same programs many times, with other limits and optimizers; here each is compiled
/// once, and its sizes, graph and choices are kept.
class ProgramSizes {
 public:
  /// `device` outlives it. All plans that use it are for this model, loss and kind of samples.
  ProgramSizes(Backend& device, ModelFunction model, LossFunction loss, const RunSamples& samples);

  /// A backend with the device's sizes, for plans that are not run.
  Backend& device() { return device_; }
  /// The reference stays valid. Throws ShapeError and ConfigError of the model.
  MicroBatchSizes& of(const TrainOptions& options, const BatchPlan& batch, std::int64_t samples);

  /// Min bytes on the device, for whole micro-batches, over the recomputation choices that
  /// `options` allows; ignores its limit.
  std::size_t least_bytes(const TrainOptions& options, const BatchPlan& batch);

 private:
  struct Known {
    BuilderSettings settings;
    double bucket_mb = 0;
    int ranks = 1;
    Sharding sharding = Sharding::none;
    std::unique_ptr<MicroBatchSizes> sizes;
  };

  /// Traces that differ in the size of the micro-batch alone. The first is of `settings`. Where the
  /// second equals the first with other extents, later ones are derived from the first without
  /// tracing the model again.
  struct Family {
    BuilderSettings settings;
    Graph first;
    bool is_compared = false, scales = false;
  };
  Graph trace_as(const BuilderSettings& settings);

  SizingBackend device_;
  ModelFunction model_;
  LossFunction loss_;
  RunSamples samples_;
  std::vector<Known> known_;
  std::list<Family> families_;
};

}  // namespace lockstep
