// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/compiled_programs.h"
#include "parallel/rank_context.h"

namespace lockstep {

/// A program for micro-batches of `samples`, with the device addresses of its inputs.
struct BoundProgram {
  std::int64_t samples = 0;
  Program* program = nullptr;
  void* x = nullptr;
  void* target = nullptr;
  void* sample_weight = nullptr;
};

/// Every program that a run needs, compiled before step 1, and bound to the memory they share: one
/// arena of the largest plan, the flat parameters and gradients, the packed copies.
class ProgramSet {
 public:
  // Programs keep references into it.
  ProgramSet(const ProgramSet&) = delete;
  ProgramSet& operator=(const ProgramSet&) = delete;

  /// As CompiledPrograms on every rank, with the algorithms that rank 0 chooses: see
  /// compile_with_shared_choices(). Then, on this rank alone, throws OutOfMemory where memory is
  /// lacking. Collective.
  ProgramSet(RankContext& context,
             const ModelFunction& model,
             const LossFunction& loss,
             const data::SampleSpec& samples,
             const TrainOptions& options,
             const BatchPlan& batch,
             const std::vector<std::int64_t>& sizes);

  /// Throws InternalError: no program was compiled for that many samples.
  const BoundProgram& training(std::int64_t samples) { return find(training_, samples); }
  const BoundProgram& evaluation(std::int64_t samples) { return find(evaluation_, samples); }
  /// Whether there is a program to evaluate that many samples.
  bool evaluates(std::int64_t samples) const;
  /// Compiles and binds another program for evaluation alone, with the algorithms that rank 0
  /// chooses. Throws OutOfMemory. Collective.
  void add_evaluation(RankContext& context,
                      const ModelFunction& model,
                      const LossFunction& loss,
                      const data::SampleSpec& samples,
                      const TrainOptions& options,
                      const BatchPlan& batch,
                      std::int64_t micro_batch);

  /// The training graph of a whole micro-batch.
  const Graph& graph() const { return compiled_->graph(); }
  const FlatSpace& space() const { return compiled_->space(); }
  const ProgramPlan& plan() const { return compiled_->whole().plan(); }
  const CompiledPrograms& compiled() const { return *compiled_; }

  float* parameters() { return buffers_.parameters->as<float>(); }
  float* gradients() { return buffers_.gradients->as<float>(); }
  const ProgramBuffers& buffers() const { return buffers_; }
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
  std::size_t arena_bytes() const { return buffers_.arena->bytes(); }

 private:
  static const BoundProgram& find(const std::vector<BoundProgram>& programs, std::int64_t samples);
  BoundProgram bind(Backend& backend, const CompiledProgram& compiled);

  std::unique_ptr<CompiledPrograms> compiled_;
  std::uint64_t baseline_bytes_;
  ProgramBuffers buffers_;
  std::vector<std::unique_ptr<DeviceBuffer>> later_arenas_;  // of add_evaluation()
  PackedCopies packed_;
  std::vector<BoundProgram> training_;  // the whole micro-batch first
  std::vector<BoundProgram> evaluation_;
};

}  // namespace lockstep
