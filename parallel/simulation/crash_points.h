// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "parallel/simulation/simulation.h"

namespace lockstep::simulation {

/// Note [Crash points]
///
/// A training with checkpoints runs again and again, each time in a process of its own, and in each
/// one rank dies before another of the operations on files of its saves (FileProbe): none of its
/// operations from there on takes place, and it calls no collective any more. Either all ranks die
/// with it, as of one host, or the others go on until none of them does anything to a file any
/// more, as until their watchdogs end them. Storage hands out space that holds anything but zeros.
///
/// Afterwards the folder has to hold, whole by verify_checkpoint(), the newest checkpoint of which
/// the save was over before, or the one after it. From that the training is resumed on another
/// number of ranks, and every sample of the epoch has to be loaded once, by the ranks before or by
/// these. What a power cut does to files that were not synced is not tried: CrashEverywhere does.
struct CrashPointRequest {
  /// Of an epoch at most. Checkpoints are in steps; their folder is filled in.
  SimulationRequest run;
  int resume_ranks = 1;
  std::filesystem::path folder;  ///< that may be emptied
  // For tests, which plant mistakes: whether the bytes that `rank` writes there are lost.
  std::function<bool(int rank, const std::filesystem::path& file)> loses_write = {};
};

struct CrashPoints {
  std::int64_t points = 0;            ///< a rank and an operation; each with all ranks and alone
  std::vector<std::int64_t> of_rank;  ///< by rank, of them
  /// After which there was no checkpoint yet, the one before, or the one that was being saved.
  std::int64_t none = 0, before = 0, after = 0;
  std::vector<std::string> failures;  ///< the first few; then it is given up
};

/// Throws EnvironmentError: no process can be started.
CrashPoints try_crash_points(const CrashPointRequest& request);

}  // namespace lockstep::simulation
