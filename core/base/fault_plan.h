// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// What goes wrong in a fault that is played for a test.
enum class FaultKind : std::uint8_t {
  kill,           ///< SIGKILL to itself
  stop,           ///< SIGSTOP to itself
  exit,           ///< an unexpected clean exit, as _exit(0)
  raise,          ///< "throw": an exception
  sleep,          ///< "sleep:SECONDS"
  hang,           ///< waits for ever
  memory,         ///< takes memory until there is none; a test sets the limit
  nan,            ///< "nan:LAYER": that operator's first output becomes NaN, in replays too
  flip_weight,    ///< "flip-weight": a bit of a parameter
  flip_gradient,  ///< "flip-gradient": a bit of a gradient, after the exchange
  scale_batch,    ///< "scale-batch:FACTOR": the loss of a micro-batch is multiplied
  skip_bucket,    ///< "skip-bucket": takes no part in the exchange of a bucket
  halve_count,    ///< "halve-count": sends half of a bucket
  never_join      ///< "never-join": waits for ever before it meets the other ranks
};

/// One fault: who plays it, when, and what.
struct PlannedFault {
  FaultKind kind = FaultKind::kill;
  int rank = -1;           ///< -1: every one
  std::int64_t step = -1;  ///< that is being computed, from 1; -1: whichever comes first
  std::string stage;       ///< name_of(RunStage); empty: any
  std::string phase;       ///< name_of(Phase); empty: any
  std::int64_t times = 1;  ///< how often a process plays it; `nan` counts none
  double number = 0;       ///< SECONDS, FACTOR
  std::string layer;       ///< LAYER: an operator's path
  std::string text;        ///< as it was given
};

/// Whether the fault hits the process (and may have a stage and a phase), not what it computes.
bool hits_process(FaultKind kind);

/// Reads LOCKSTEP_FAULT:
///   FAULT[;FAULT...], FAULT: rank=N|*[,step=N][,stage=NAME][,phase=NAME][,times=N],do=KIND[:VALUE]
/// as in "rank=1,step=5,phase=exchange,do=kill". Throws ConfigError naming the part that is not
/// understood.
std::vector<PlannedFault> parse_fault_plan(std::string_view text);

}  // namespace lockstep
