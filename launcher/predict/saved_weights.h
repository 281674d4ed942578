// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep {

/// Where a model's weights and what belongs to them lie: config.toml, preprocessing.json and
/// model.safetensors of one folder.
struct SavedWeights {
  std::filesystem::path folder;
  bool checkpoint = false;
  std::int64_t step = -1;  ///< of a checkpoint

  std::filesystem::path file() const { return folder / "model.safetensors"; }
  /// The average of the weights. Throws ConfigError: the run has none.
  std::filesystem::path average() const;
};

/// What --from, or another `flag`, names: a checkpoint, verified; a run that has ended; or the
/// newest checkpoint that verifies of one that has not (those skipped are named on standard error).
/// Throws ConfigError: it is a file, a part of a run or a folder of runs, with the folder that was
/// probably meant; EnvironmentError: there is nothing of that kind, naming the file that is
/// missing; DataError: the checkpoint is damaged.
SavedWeights find_weights(const std::filesystem::path& from, const char* flag = "--from");

}  // namespace lockstep
