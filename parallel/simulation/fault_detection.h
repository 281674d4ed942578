// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lockstep/watch_limits.h"
#include "parallel/simulation/planted_fault.h"
#include "parallel/watchdog/failure_detector.h"

namespace lockstep::simulation {

struct DetectionRequest {
  int ranks = 1, ranks_per_host = 1;
  WatchLimits limits = {};
  RunStage stage = RunStage::training;
  std::int64_t step = 1;  ///< that is being computed
  /// In the order of time. The first one halts the run; others that come before all ranks have
  /// ended, or work again, are met as well. Those that do not halt are ignored.
  std::span<const PlantedFault> faults = {};
  std::uint64_t seed = 1;  ///< of when beats are sent
};

/// What the watchdogs of all ranks made of it; where no rank is left that could notice a death,
/// what the launcher did, which stands on the host of rank 0.
struct Detection {
  std::optional<Verdict> verdict;  ///< empty: ranks work again, or none would ever notice
  /// The launcher has died with its host: the job is its scheduler's, which has ended the ranks.
  bool launcher_died = false;
  int exit_code = 0;       ///< of the job, by the verdict
  double detected_at = 0;  ///< same clock as the faults
  /// When the last rank had ended that can; without a verdict when ranks worked again, which may be
  /// never.
  double over_at = 0;
  std::size_t met = 0;  ///< of the faults, those that had begun before
  /// Of those, by number, the one that the verdict is of: it has hit the named rank. Nothing: the
  /// verdict is wrong.
  std::optional<std::size_t> named_fault;
  /// Ranks that were not hit and ended with another name in their record.
  int others_wrong = 0;
};

/// The library's own watchdogs of all ranks (SimulatedWatch), which meet `faults`.
Detection detect(const DetectionRequest& request);

struct SlowDetection {
  int rank = -1;       ///< that was named first
  double seconds = 0;  ///< of training from when it became slow
};

/// Who the library's StragglerScores name where those of `slow` take `factor` times as long as the
/// others for their `micro_batches` a step, within `seconds`; nothing where they name none until
/// the scores have settled.
/// `spread`: as DeviceModel::spread.
std::optional<SlowDetection> detect_slow(int ranks,
                                         std::span<const int> slow,
                                         double factor,
                                         double step_s,
                                         double micro_batches,
                                         double spread,
                                         double seconds,
                                         std::uint64_t seed);

}  // namespace lockstep::simulation
