// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "lockstep/job.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {

// Note [Survivors]. Where MPI has ULFM and `lockstep run` allows it (LOCKSTEP_SURVIVORS), the death
// of a rank does not end the others. They find out in two ways: a message fails, and the rank that
// notices first revokes all communicators, so that the messages of the others fail as well, and
// waits until all have come to that (MpiSession::let_ranks_outlive()); and the watchdogs come to
// their record. The exception of the message destroys all that was made of the job, the Job last.
// Then the ranks that are left make the world smaller, and each begins its run again in the same
// process, from the newest snapshot, as a restarted one would. What goes wrong on this way ends the
// ranks, and `lockstep run` starts them anew.
//
// A rank that is frozen might wake, and is killed first; where none that misses it shares its
// machine, or rank 0 has children elsewhere, all end. On GPUs NCCL would wait for a dead rank
// for ever: its communicators are failed as soon as the watchdog knows, so that what the device
// waits for ends. The training thread notes the loss to MPI before it throws, as where a message
// failed (NcclFailure). A rank keeps its GPU. What else a death may do to a device, as where it
// takes away memory that another one reads, is an error of that rank, which ends all.

/// What `lockstep run` allows.
struct SurvivorTerms {
  int min_ranks = 1;  ///< with fewer the ranks end
  int restarts = 0;   ///< of the run, before this process was started
};
/// What LOCKSTEP_SURVIVORS says; nothing where ranks do not outlive a death.
std::optional<SurvivorTerms> survivor_terms();

/// From now on, where survivor_terms() are there and one rank less is not too few: a run has begun
/// that can be begun again.
void outlive_deaths(Job& job);
/// From now on a death ends all ranks: the run has ended, and ranks leave MPI.
void end_with_deaths(Job& job);

/// The death of a rank that this one is to outlive.
struct RankDeath {
  FaultRecord record;
  std::int64_t step = 0;  ///< that this rank was computing, from 1
  int ranks = 0;          ///< before
  bool can_continue = true;
};
/// To be called where an exception has come out of the run, with the Job still there.
/// `can_continue` from what this rank knows. Nothing: the exception is about something else, or
/// there is no record of a death.
std::optional<RankDeath> outlived_death(Job& job, bool can_continue);

/// Collective over the ranks that are left, without a Job. Returns how many. Where that takes too
/// long, one of them cannot continue, or they are fewer than min_ranks or a number that does not
/// fit, this process ends with the record's exit code, as it would without ULFM.
int shrink_to_survivors(const RankDeath& death, const std::function<bool(int)>& fits);

}  // namespace lockstep
