// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/watch_limits.h"
#include "parallel/simulation/planted_fault.h"

namespace lockstep {

/// Note [Fault storms]
///
/// A day of a thousand ranks is too long to be run step by step on each. A storm takes from the
/// exact simulation what a start and a step take, and runs the job as a whole by events: launch,
/// start-up, steps, saves, faults, ends, restarts. What decides is the library's own: who is
/// accused and when by the watchdogs of all ranks (simulation::detect), slow ranks by
/// StragglerScores, whether and when there is a restart by RestartPolicy, when a checkpoint is due
/// by SaveTimer and a snapshot in memory by SnapshotPace. What things take is modelled, and so are
///   - a save: training stalls while a rank copies its part; then its bytes are written at the
///     storage's bandwidth, concurrently with training. A fault before that has ended leaves the
///     one before. So is a snapshot, which the ranks of each host write into its memory. A
///     checkpoint that is due meanwhile is copied, and written afterwards;
///   - whose memory is left: hosts whose ranks have ended keep their snapshots, a host that is
///     replaced has none;
///   - a restart: the pause of the policy, launch_s, what is newest of disk and memory, read by
///     every host as a whole, as each rank verifies it (a host without the snapshot gets it over
///     the network first), and the start-up of the exact simulation;
///   - which host is replaced when the ranks start again: that of the rank that was named (by the
///     watchdogs or at the launch), and those that died, with all that was wrong there. What is
///     wrong with other hosts lasts, and what is wrong with a process ends with it;
///   - the launcher, on the host of rank 0: where that host dies the scheduler starts another one.
struct StormRequest {
  int ranks = 1, ranks_per_host = 1;
  double seconds = 0;  ///< of the storm
  std::uint64_t seed = 1;
  std::vector<simulation::PlantedFault> faults;  ///< in the order of time
  // From the exact simulation:
  double startup_s = 0, step_s = 0;
  double micro_batches = 1;  ///< of a rank in a step
  double spread = 0;         ///< as simulation::DeviceModel
  double checkpoint_bytes = 0;
  double copy_bytes_per_s = 25e9;     ///< from each device to its host
  double network_bytes_per_s = 50e9;  ///< of a host
  // Of the job and its settings:
  double storage_bytes_per_s = 20e9;
  double launch_s = 60;
  std::int64_t every_steps = 0;
  double every_seconds = 600;
  bool has_snapshots = false;
  double snapshot_seconds = 0;           ///< 0: by cost
  double snapshot_bytes_per_s = 0.35e9;  ///< that a rank writes and hashes, or reads and verifies
  WatchLimits limits;
  int max_restarts = 3;
  double backoff_s = 5;
};

/// What became of one fault.
struct FaultOutcome {
  simulation::PlantedFault fault = {};
  std::string met_in = {};                ///< "training", "start-up", "launch", "a pause"; empty
  int named = -1;                         ///< rank; -1: none was
  std::string verdict = {};               ///< "died", "frozen", "stuck", "slow"; empty
  bool is_right = true;                   ///< no rank was named that was not hit
  int others_wrong = 0;                   ///< ranks whose own record names another
  std::optional<double> detected_s = {};  ///< after it began
  std::optional<double> restart_s = {};   ///< from the end of the ranks until they train again
  std::int64_t lost_steps = 0;
  std::optional<double> next_step_s = {};  ///< from its begin to the next step that is done
  std::string note = {};                   ///< what else came of it; may be empty
};

}  // namespace lockstep
