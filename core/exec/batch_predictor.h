// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/exec/loaded_parameters.h"
#include "lockstep/builder.h"
#include "lockstep/data/dataset.h"
#include "lockstep/precision.h"

namespace lockstep {

/// A model with weights from a file, run forward on one device.
class BatchPredictor {
 public:
  /// `weights`: a file or folder (see io::load_weights()). `samples`: how many run() takes at once.
  /// `mirrors`: of images, predictions are means with those of the mirror images.
  /// Throws DataError: the file does not fit the model; OutOfMemory.
  BatchPredictor(Backend& backend,
                 const ModelFunction& model,
                 const data::SampleSpec& spec,
                 std::int64_t samples,
                 Precision precision,
                 const std::string& weights,
                 bool mirrors = false);

  /// input: [samples, ...] as the SampleSpec says, tokens below its classes (not checked) ->
  /// prediction: [samples, ..., outputs] fp32, valid until the next call. Rows depend on their own
  /// sample alone.
  const std::vector<float>& run(const void* input);
  /// Of run()'s result.
  const Shape& shape() const { return shape_; }

 private:
  Backend& backend_;
  FlatSpace space_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<LoadedParameters> parameters_;
  std::size_t input_bytes_;
  Shape sample_;
  std::vector<std::byte> mirrored_;  // as an input; empty: none
  Shape shape_;
  std::vector<float> prediction_;
};

}  // namespace lockstep
