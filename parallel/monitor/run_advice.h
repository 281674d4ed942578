// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/time_breakdown.h"
#include "lockstep/train_records.h"
#include "parallel/monitor/rank_placement.h"

namespace lockstep {

/// What is known at the end of a run, of this process.
struct RunFacts {
  std::vector<RankTimeBreakdown> breakdowns;  ///< of every rank
  std::int64_t steps = 0, log_every = 0;
  double step_error = 0;     ///< relative standard error of the mean step time: see StepSpread
  int machines = 1;          ///< that the ranks are on
  std::int64_t records = 0;  ///< of steps, validations and faults, reported to observers
  double samples_per_s = 0;
  double loader_samples_per_s = 0;  ///< that all loaders could deliver
  int loader_workers = 0;           ///< of each rank; 0: the training thread loads
  int free_cpus = 0;                ///< that rank 0's host has for its ranks beyond one for each
  int host_cpus = 0;                ///< of that host, whether its ranks may use them or not
  std::int64_t checkpoints = 0;
  std::int64_t checkpoint_steps = 0;  ///< between two, as set; 0: not by steps
  double checkpoint_seconds = 0;      ///< the same by time
  std::vector<OversubscribedRanks> oversubscribed = {};
  int slowest_rank = -1;  ///< as in TrainSummary, with score and phase
  std::string slowest_host = {}, slowest_phase = {};
  double slowest_score = 0;
  std::int64_t buckets = 0, gradient_bytes = 0;
  double moving_seconds = 0;  ///< of moving exchanges along inside backward, on rank 0
  bool on_gpu = false;
  std::optional<double> device_idle = {};  ///< share of its time, where rank 0's GPU measured it
};

/// What is gained at least by an advice that is given, and how much has to be known of a run.
inline constexpr double kWorthwhile = 0.05;
/// A gain has to be more than so many standard errors of the mean step time: of normal errors, 0.1%
/// are larger.
inline constexpr double kStandardErrors = 3;
/// max(kWorthwhile, kStandardErrors * step_error)
double min_gain(const RunFacts& facts);

inline constexpr double kShortestRun = 0.5;  ///< seconds of training
inline constexpr std::int64_t kMinSteps = 20;
inline constexpr std::size_t kMaxAdvice = 3;

/// At most kMaxAdvice, the one that saves most first; none for a run without a bottleneck, or
/// of which too little is known. Each gains more than min_gain(). Shares are the breakdowns': time
/// that all ranks lose counts as lost by its cause; what only some lose, while the others wait in
/// the exchange, is the slow rank's. With x the share of the exchange in a rank's time, the slow
/// rank s and the mean over the others o, its own work takes (1 - x_s) / (1 - x_o) times as long,
/// and the gain is x_o - x_s. On one machine the exchange waits for no network: for other ranks,
/// and for cores, where the rank that waits least was queued (RankTimeBreakdown) at least half
/// as long.
std::vector<Advice> advise_run(const RunFacts& facts);

}  // namespace lockstep
