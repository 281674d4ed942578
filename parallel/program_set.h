// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/data/dataset.h"
#include "core/exec/program.h"
#include "core/nn/builder.h"
#include "parallel/batch_plan.h"
#include "parallel/train_options.h"

namespace lockstep {

/// A program for micro-batches of `samples`, with the device addresses of its inputs.
struct BoundProgram {
  std::int64_t samples = 0;
  std::unique_ptr<Program> program;
  void* x = nullptr;
  void* target = nullptr;
  void* sample_weight = nullptr;
};

/// Every program that a run needs, compiled before step 1, and the memory they share: one arena of
/// the largest plan, the flat parameters and gradients, the packed copies.
class ProgramSet {
 public:
  // Programs keep references into it.
  ProgramSet(const ProgramSet&) = delete;
  ProgramSet& operator=(const ProgramSet&) = delete;

  /// `sizes`: micro-batch sizes in samples; 0 is added where ranks form batch-norm groups.
  /// Throws ConfigError: the model declares other parameters for one size or mode than for another.
  ProgramSet(Backend& backend,
             const ModelFunction& model,
             const LossFunction& loss,
             const data::SampleSpec& samples,
             const TrainOptions& options,
             const BatchPlan& batch,
             std::vector<std::int64_t> sizes);

  /// Throws InternalError: no program was compiled for that many samples.
  const BoundProgram& training(std::int64_t samples) { return find(training_, samples); }
  const BoundProgram& evaluation(std::int64_t samples) { return find(evaluation_, samples); }

  /// The training graph of a whole micro-batch.
  const Graph& graph() const { return training_.front().program->graph(); }
  const FlatSpace& space() const { return space_; }
  const ProgramPlan& plan() const { return training_.front().program->plan(); }

  float* parameters() { return parameters_->as<float>(); }
  float* gradients() { return gradients_->as<float>(); }
  PackedCopies& packed() { return packed_; }
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
  /// See training_bytes(); of the program for a whole micro-batch.
  std::size_t planned_bytes(const Optimizer& optimizer) const;
  std::size_t arena_bytes() const { return arena_->bytes(); }

 private:
  static const BoundProgram& find(const std::vector<BoundProgram>& programs, std::int64_t samples);
  void check_parameters(std::int64_t samples, const Graph& graph) const;
  void allocate_and_bind(Backend& backend);

  FlatSpace space_;
  MemoryReuse reuse_;
  std::vector<BoundProgram> training_;  // the whole micro-batch first
  std::vector<BoundProgram> evaluation_;
  PackedCopies packed_;
  std::unique_ptr<DeviceBuffer> arena_, parameters_, gradients_;
};

}  // namespace lockstep
