// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <span>

#include "core/exec/communicator.h"
#include "lockstep/job.h"
#include "parallel/session/job_internals.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {

/// Where ranks that met an error find out whether the others met it as well. Most mistakes (a flag,
/// a missing file, a loss that is not finite) hit all ranks alike: then the message is printed once
/// and every rank leaves in order. Where others continue, they may wait for this rank for ever:
/// after kPatienceSeconds it prints, tells the watchdogs, and ends the job. Either way every rank
/// has the record in its log.
///
/// Ranks that come later than that, from a slow file or a oversubscribed core, are ended by the
/// record of the first: still said once, with the same exit code. So the patience only decides who
/// may leave in order (rank 0 may be writing a checkpoint), and is as long as the two seconds allow
/// in which an error of one rank has to end all. To tell the others any earlier, at the error
/// itself, would end the job no sooner: it is this wait that tells the two cases apart.
class ErrorConsensus {
 public:
  static constexpr double kPatienceSeconds = 1;

  /// Collective. `job` must outlive the meeting.
  explicit ErrorConsensus(Job& job);
  ~ErrorConsensus();

  /// Reports `error` and returns the exit code of the process. To be called at most once, outside
  /// of stack unwinding, and last: one of several ranks ends half a second later, whatever its way
  /// out of MPI hangs in.
  int report(const std::exception_ptr& error);

 private:
  /// Where the others take too long, the job ends.
  void exchange_cards(std::span<float> cards,
                      std::span<const CommBlock> blocks,
                      const FaultRecord& record);
  [[noreturn]] void end_job(const FaultRecord& record);

  Job& job_;
  JobInternals inside_;
  std::unique_ptr<Communicator> side_channel_;  // free of the collectives that others wait in
};

}  // namespace lockstep
