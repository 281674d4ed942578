// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rank_context.h"
#include "parallel/replica/compiled_programs.h"

namespace lockstep {

/// A program for micro-batches of `samples`, with the device addresses of its inputs.
struct BoundProgram {
  std::int64_t samples = 0;
  Program* program = nullptr;
  void* x = nullptr;
  void* target = nullptr;
  std::size_t x_bytes = 0, target_bytes = 0;
  void* sample_weight = nullptr;
  void* teacher = nullptr;  ///< the teacher's logits; null: it learns from none
};

/// Every program that a run needs, compiled before step 1, and bound to the memory they share: one
/// arena of the largest plan, the flat parameters and gradients, the packed copies. Only an
/// evaluation that skips samples may need a further program, whose size is unknown before: see
/// set_late_evaluation().
class ProgramSet {
 public:
  // Programs keep references into it.
  ProgramSet(const ProgramSet&) = delete;
  ProgramSet& operator=(const ProgramSet&) = delete;

  /// As CompiledPrograms on every rank, with the algorithms that rank 0 chooses: see
  /// compile_with_broadcast_algorithms(). Then, on this rank alone, throws OutOfMemory where memory
  /// is lacking. Collective.
  ProgramSet(RankContext& context,
             const ModelFunction& model,
             const LossFunction& loss,
             const RunSamples& samples,
             const TrainOptions& options,
             const BatchPlan& batch,
             const std::vector<std::int64_t>& sizes);

  /// From now on training() has the programs for images of size `size`, an index of
  /// RunSamples::training; the first, until it is called.
  void use(std::size_t size) { size_ = size; }
  std::size_t used_size() const { return size_; }
  /// Throws InternalError: no program was compiled for that many samples.
  const BoundProgram& training(std::int64_t samples) { return find(training_.at(size_), samples); }
  const BoundProgram& evaluation(std::int64_t samples) {
    return late_evaluation_ && late_evaluation_->samples == samples ? *late_evaluation_
                                                                    : find(evaluation_, samples);
  }
  /// Whether there is a program to evaluate that many samples.
  bool evaluates(std::int64_t samples) const;
  /// Compiles and binds a further program for evaluation alone, with the algorithms that rank 0
  /// chooses. It replaces the previous one, whose memory is freed. It usually fits the arena of the
  /// others, and has one of its own otherwise; it may need packed copies that the others do not
  /// have. A plan made before step 1 does not count these bytes; this function checks them against
  /// options.memory_limit before it allocates them, and the replica's memory table counts them.
  /// Packed copies are made from the parameters as they are when the program runs. Throws
  /// OutOfMemory: over that limit, on every rank; or the device's. Collective.
  void set_late_evaluation(RankContext& context,
                           const ModelFunction& model,
                           const LossFunction& loss,
                           const RunSamples& samples,
                           const TrainOptions& options,
                           const BatchPlan& batch,
                           std::int64_t micro_batch);

  /// Null where there is none.
  Teacher* teacher() { return teacher_.get(); }
  /// Bound, for the optimizer; null where it runs none. See core/plan/orthogonalize.h.
  Program* orthogonalization() { return compiled_->orthogonalization().get(); }

  /// The training graph of a whole micro-batch.
  const Graph& graph() const { return compiled_->graph(); }
  const FlatSpace& space() const { return compiled_->space(); }
  const ProgramPlan& plan() const { return compiled_->whole().plan(); }
  const CompiledPrograms& compiled() const { return *compiled_; }

  float* parameters() { return buffers_.parameters->as<float>(); }
  float* gradients() { return buffers_.gradients->as<float>(); }
  const ProgramBuffers& buffers() const { return buffers_; }
  DeviceBuffer* upload() { return buffers_.upload.get(); }
  PackedCopies& packed() { return packed_; }
  const PackedCopies& packed() const { return packed_; }
  /// ResidentMemory::own once everything was compiled and before anything was allocated.
  std::uint64_t baseline_bytes() const { return baseline_bytes_; }
  /// See Program::set_position().
  void set_position(Position* position);
  /// See Program::profile().
  void profile(Profiler* profiler);
  /// See Program::check_finite(), of the training programs.
  void check_finite(FiniteReport* report);
  /// See Program::poison_after(), of the training programs. Throws ConfigError: no kernel of the
  /// forward pass has that path; the nearest that one has is offered.
  void poison_after(const std::string& path);
  /// Text of every program, plan and of the flat space, as files in `folder`.
  void dump(const std::string& folder) const;
  /// Of the arena, and of that of a late evaluation where it has one of its own.
  std::size_t arena_bytes() const { return buffers_.arena->bytes() + late_arena_bytes(); }
  std::size_t late_arena_bytes() const { return late_arena_ ? late_arena_->bytes() : 0; }

 private:
  static const BoundProgram& find(const std::vector<BoundProgram>& programs, std::int64_t samples);
  BoundProgram bind(Backend& backend, const CompiledProgram& compiled, DeviceBuffer& arena);
  void drop_late_evaluation();
  void check_limit(const TrainOptions& options, const BatchPlan& batch) const;
  bool fits_arena(const Program& program) const {
    return program.arena_bytes() <= buffers_.arena->bytes();
  }
  /// Calls use(program) with each.
  template <typename Use>
  void for_each(Use use) {
    for_each_training(use);
    for (BoundProgram& bound : evaluation_) use(*bound.program);
    if (orthogonalization() != nullptr) use(*orthogonalization());
    if (late_evaluation_) use(*late_evaluation_->program);
  }

  template <typename Use>
  void for_each_training(Use use) {
    for (auto& programs : training_)
      for (BoundProgram& bound : programs) use(*bound.program);
  }

  std::shared_ptr<CompiledPrograms> compiled_;  // with RankContext::shared_programs(), not its own
  std::uint64_t baseline_bytes_;
  ProgramBuffers buffers_;
  std::unique_ptr<DeviceBuffer> late_arena_;  // null: the late evaluation fits the others'
  PackedCopies packed_;
  // Of SharedPrograms: whether another rank has bound them, and with what.
  bool is_bound_ = false;
  PackedCopies* shared_packed_ = nullptr;
  int planned_copies_ = 0;                           // packed copies but those of a late evaluation
  std::vector<std::vector<BoundProgram>> training_;  // by size of images; whole micro-batch first
  std::size_t size_ = 0;
  std::vector<BoundProgram> evaluation_;
  std::optional<BoundProgram> late_evaluation_;
  std::unique_ptr<Teacher> teacher_;
  Position* position_ = nullptr;
  Profiler* profiler_ = nullptr;
};

}  // namespace lockstep
