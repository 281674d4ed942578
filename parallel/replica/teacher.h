// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/loaded_parameters.h"
#include "lockstep/data/dataset.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// A teacher's programs, which predict micro-batches of some sizes, and what they would reserve.
class CompiledTeacher {
 public:
  // Programs keep references into it.
  CompiledTeacher(const CompiledTeacher&) = delete;
  CompiledTeacher& operator=(const CompiledTeacher&) = delete;

  /// For the teacher of `options`, with their precision; sizes of 0 samples are skipped. Throws
  /// ConfigError: it does not predict [N, classes] of `samples`; ShapeError of its model.
  CompiledTeacher(Backend& backend,
                  const data::SampleSpec& samples,
                  const TrainOptions& options,
                  const std::vector<std::int64_t>& sizes,
                  MemoryReuse reuse);

  /// Parameters, arena and packed copies.
  std::size_t bytes() const;
  /// That predicts micro-batches of `samples`, one of the sizes.
  const Program& program(std::int64_t samples) const { return *programs_.at(samples); }

 private:
  friend class Teacher;
  std::vector<Program*> programs() const;

  FlatSpace space_;
  std::map<std::int64_t, std::unique_ptr<Program>> programs_;  // by samples
};

/// A teacher on a device: it predicts each micro-batch of the student, in evaluation mode.
class Teacher {
 public:
  /// `compiled` outlives it. Throws DataError: the weights of `options` do not fit its model;
  /// OutOfMemory.
  Teacher(Backend& backend, CompiledTeacher& compiled, const TrainOptions& options);

  /// x: `samples` inputs in device memory -> logits: [samples, classes] f32 there. Does not wait.
  void run(std::int64_t samples, const void* x, std::size_t x_bytes, void* logits);

 private:
  Backend& backend_;
  CompiledTeacher& compiled_;
  LoadedParameters parameters_;
};

/// io::weights_sha256() of the teacher of `options`, for samples like these. Throws DataError: the
/// file cannot be read, or does not fit.
std::string teacher_sha256(const TrainOptions& options, const data::SampleSpec& samples);

}  // namespace lockstep
