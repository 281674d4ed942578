// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/exec/program.h"
#include "core/nn/builder.h"
#include "core/plan/gradient_space.h"
#include "lockstep/builder.h"
#include "lockstep/train_options.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/run_samples.h"
#include "parallel/replica/memory_fit.h"
#include "parallel/replica/teacher.h"

namespace lockstep {

/// A program for micro-batches of `samples`.
struct CompiledProgram {
  std::int64_t samples = 0;
  std::unique_ptr<Program> program;
};

/// Every program that a run needs, compiled for one device before any of their memory is reserved.
/// `lockstep plan` needs no more; ProgramSet binds the programs to memory.
class CompiledPrograms {
 public:
  // Programs keep references into it.
  CompiledPrograms(const CompiledPrograms&) = delete;
  CompiledPrograms& operator=(const CompiledPrograms&) = delete;

  /// `sizes`: micro-batch sizes in samples in addition to the whole one; 0 is added where ranks
  /// form batch-norm groups. `ranks_per_host`: Communicator::ranks_per_node(); programs and their
  /// memory do not depend on it. Throws ConfigError: the model declares other parameters for one
  /// size or mode than for another, also for images of another size, or reads a weight that owners
  /// send rounded in another precision; the device has no tf32 GEMMs; or the optimizer works on
  /// hidden matrices and the model has none. OutOfMemory: see compile_within_limit().
  CompiledPrograms(Backend& backend,
                   const ModelFunction& model,
                   const LossFunction& loss,
                   const RunSamples& samples,
                   const TrainOptions& options,
                   const BatchPlan& batch,
                   std::vector<std::int64_t> sizes,
                   int ranks_per_host = 1);

  /// Compiles a further program for evaluation, late_evaluation(), which replaces the previous one.
  /// Throws as the constructor.
  void add_late_evaluation(Backend& backend,
                           const ModelFunction& model,
                           const LossFunction& loss,
                           const RunSamples& samples,
                           const TrainOptions& options,
                           const BatchPlan& batch,
                           std::int64_t micro_batch);
  void drop_late_evaluation() { late_evaluation_.reset(); }

  /// The whole micro-batch first.
  const std::vector<CompiledProgram>& training() const { return training_; }
  /// The same for each further size of images, in the order of RunSamples::training.
  const std::vector<std::vector<CompiledProgram>>& other_sizes() const { return other_sizes_; }
  const std::vector<CompiledProgram>& evaluation() const { return evaluation_; }
  /// The program that the optimizer runs over hidden matrices, for gradients in the place of
  /// parameters; null where it runs none. See core/plan/orthogonalize.h.
  const std::unique_ptr<Program>& orthogonalization() const { return orthogonalization_; }
  /// Null where there is no teacher.
  const std::unique_ptr<CompiledTeacher>& teacher() const { return teacher_; }
  /// The program of add_late_evaluation(); the other functions do not count it.
  const std::optional<CompiledProgram>& late_evaluation() const { return late_evaluation_; }

  /// The training program of a whole micro-batch.
  const Program& whole() const { return *training_.front().program; }
  const Graph& graph() const { return whole().graph(); }
  const FlatSpace& space() const { return space_; }
  /// Where gradients lie: divide_gradients(), or whole where a program does not suit that.
  const GradientSpace& gradients() const { return gradients_; }
  /// Calls use(compiled) with each, but the orthogonalization and late_evaluation().
  template <typename Use>
  void for_each(Use use) const {
    for (const CompiledProgram& compiled : training_) use(compiled);
    for (const auto& size : other_sizes_)
      for (const CompiledProgram& compiled : size) use(compiled);
    for (const CompiledProgram& compiled : evaluation_) use(compiled);
  }
  /// The program whose plan needs the largest arena, which all of them share.
  const Program& largest() const;
  /// What rank 0 reserves on its device: MemoryTable::on_device() of plan_memory().
  std::size_t device_bytes(const TrainOptions& options, const BatchPlan& batch) const;

 private:
  void add(Backend& backend,
           const ModelFunction& model,
           const LossFunction& loss,
           const RunSamples& samples,
           const TrainOptions& options,
           const BatchPlan& batch,
           std::int64_t micro_batch);
  void add_other_sizes(Backend& backend,
                       const ModelFunction& model,
                       const LossFunction& loss,
                       const RunSamples& samples,
                       const TrainOptions& options,
                       const BatchPlan& batch,
                       const std::vector<std::int64_t>& sizes);
  /// Before all are compiled anew.
  void forget_programs();
  BuilderSettings evaluating(const TrainOptions& options,
                             const BatchPlan& batch,
                             std::int64_t micro_batch) const;
  /// `first`: the training graph whose parameters it must declare.
  CompiledProgram compile_evaluation(Backend& backend,
                                     Graph graph,
                                     const Graph& first,
                                     std::int64_t micro_batch) const;
  const DeviceTraits traits_;
  const int ranks_per_host_;
  FlatSpace space_;
  GradientSpace gradients_;
  bool needs_whole_gradients_ = false;  // a program does not suit divided ones
  MemoryReuse reuse_;
  RecomputeIndex choice_;  // the whole micro-batch, which comes first, decides
  std::vector<CompiledProgram> training_;
  std::vector<std::vector<CompiledProgram>> other_sizes_;
  std::vector<CompiledProgram> evaluation_;
  std::unique_ptr<Program> orthogonalization_;
  std::unique_ptr<CompiledTeacher> teacher_;
  std::optional<CompiledProgram> late_evaluation_;
};

/// Programs that several ranks of one process run, over memory that holds nothing and has the same
/// addresses on all: whoever comes first compiles and binds them. See
/// RankContext::shared_programs().
class SharedPrograms {
 public:
  std::shared_ptr<CompiledPrograms> programs;
  std::unique_ptr<PackedCopies> packed;  ///< that they are bound with; null: they are not bound
};

// Parts of what CompiledPrograms does, for callers that need one alone.

/// The whole micro-batch first, then the other sizes once each.
std::vector<std::int64_t> distinct_sizes(const BatchPlan& batch, std::vector<std::int64_t> sizes);
/// Settings for the trace of the training program for micro-batches of `samples`.
BuilderSettings settings_for(const TrainOptions& options,
                             const DeviceTraits& device,
                             const BatchPlan& batch,
                             std::int64_t samples);
std::int64_t bucket_bytes(const TrainOptions& options,
                          const DeviceTraits& device,
                          const Graph& graph);
BucketRules bucket_rules(const TrainOptions& options,
                         const DeviceTraits& device,
                         const BatchPlan& batch,
                         int ranks_per_host = 1);
/// What the phase `orthogonalize` of the optimizer runs for a training graph; null: it has no such
/// phase. Throws ConfigError: there is no matrix for it.
std::unique_ptr<Program> compile_orthogonalization(Backend& backend,
                                                   const Graph& training,
                                                   const FlatSpace& space,
                                                   const TrainOptions& options);
/// LOCKSTEP_PLAN.
MemoryReuse reuse_of_environment();

/// The memory that all programs of a run share.
struct ProgramBuffers {
  std::unique_ptr<DeviceBuffer> arena, parameters, gradients;  // the last as GradientSpace has it
  std::unique_ptr<DeviceBuffer> upload;                        // StepParamsUpload's place

  /// Throws OutOfMemory.
  ProgramBuffers(Backend& backend, const CompiledPrograms& programs);
};

/// Reserves memory for the packed copies that the programs need. Throws OutOfMemory.
void request_packed_copies(Backend& backend,
                           const CompiledPrograms& programs,
                           PackedCopies& packed);

}  // namespace lockstep
