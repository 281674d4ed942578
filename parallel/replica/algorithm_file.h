// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/exec/backend.h"
#include "lockstep/rank_context.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// The algorithms that a device runs, in a run's folder and in its checkpoints.
inline constexpr const char* kAlgorithmsFile = "algorithms.txt";

/// Backend::choices() with a line on top that has the device class and a hash of the rest. Empty
/// where the device chooses nothing.
std::string algorithms_text(const Backend& device);

/// The choices in `text`, of algorithms_text(). `file` names it in errors. Throws ConfigError: it
/// is none, was edited or cut off.
struct AlgorithmsFile {
  std::string device_class, choices;
};
AlgorithmsFile read_algorithms(const std::string& text, const std::string& file);

/// Before kernels are made for a run: has rank 0's device choose as TrainOptions::algorithms says,
/// and take the choices in the folder `checkpoint` (empty: none), or else those of
/// TrainOptions::algorithms_file. Operators that these do not have are chosen as in a new run.
/// Where the choices of a checkpoint are of another device class they are not taken; the result
/// says so, otherwise it is empty. Collective. Throws, on every rank alike, ConfigError:
/// algorithms_file cannot be read or is of another device class.
std::string prepare_algorithms(RankContext& context,
                               const TrainOptions& options,
                               const std::string& checkpoint);

}  // namespace lockstep
