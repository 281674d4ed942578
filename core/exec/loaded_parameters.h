// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/exec/program.h"

namespace lockstep {

/// Where the parameters of a model lie that only predicts: nothing is exchanged.
FlatSpace prediction_space(const Graph& graph);

/// What forward programs of one model run with: parameters from a file, memory for whichever of
/// them runs, and packed copies.
class LoadedParameters {
 public:
  /// Binds the programs; they and `space`, by which parameters lie, outlive it. `weights`: a file
  /// or folder (see io::load_weights()). `owner`: "teacher's ", for errors. Throws DataError: the
  /// file does not fit the model; OutOfMemory.
  LoadedParameters(Backend& backend,
                   const FlatSpace& space,
                   std::span<Program* const> programs,
                   const std::string& weights,
                   const std::string& owner = "");

  float* data() { return parameters_->as<float>(); }

 private:
  PackedCopies packed_;
  std::unique_ptr<DeviceBuffer> arena_, parameters_;
};

}  // namespace lockstep
