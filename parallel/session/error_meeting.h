// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/exec/communicator.h"
#include "parallel/comm/culprit.h"
#include "parallel/session/fault_log.h"

namespace lockstep {

class Job;

/// An exception as people see it.
struct ErrorReport {
  std::string message;
  std::string hint;
  int exit_code = 1;
  /// Of an error that all ranks meet alike; its rank is -1 where each speaks for itself.
  Culprit culprit = {};
  std::string details = {};  ///< whole lines
};

/// lockstep::Error keeps its code, std::bad_alloc is 4 (out of memory), everything else 1.
ErrorReport describe(const std::exception_ptr& error);

/// `error` as the record of a process that stands at `position`; of where, only what is known: a
/// run that has not begun has no step.
FaultRecord to_record(const ErrorReport& error, int rank, const PositionNote& position);

/// Writes "[rank R host] error: ..." and, where there is one, "hint: ..." to standard error.
void print_error(const ErrorReport& report, int rank);
/// "[rank R host] warning: ...", for what does not end a run.
void print_warning(const std::string& message, int rank);

/// Reports `error` of a process that no ErrorMeeting connects to the others, and returns the exit
/// code. The launcher's rank 0 speaks at once. The others wait three seconds before they do: where
/// rank 0 failed as well, the launcher ends them meanwhile.
int report_alone(const std::exception_ptr& error);

/// Where ranks that met an error find out whether the others met it as well. Most mistakes (a flag,
/// a missing file, a loss that is not finite) hit all ranks alike: then the message is printed once
/// and every rank leaves in order. Where others go on, they may wait for this rank for ever: after
/// kPatienceSeconds it prints, tells the watchdogs, and ends the job. Either way every rank has the
/// record in its log.
///
/// Ranks that come later than that, from a slow file or a crowded core, are ended by the record of
/// the first: still said once, with the same exit code. So the patience only decides who may leave
/// in order (rank 0 may be writing a checkpoint), and is as long as the two seconds allow in which
/// an error of one rank has to end all. To tell the others any earlier, at the error itself, would
/// end the job no sooner: it is this wait that tells the two cases apart.
class ErrorMeeting {
 public:
  static constexpr double kPatienceSeconds = 1;

  /// Collective. `job` must outlive the meeting.
  explicit ErrorMeeting(Job& job);
  ~ErrorMeeting();

  /// Reports `error` and returns the exit code of the process. To be called at most once, outside
  /// of stack unwinding, and last: one of several ranks ends half a second later, whatever its way
  /// out of MPI hangs in.
  int report(const std::exception_ptr& error);

 private:
  [[noreturn]] void end_job(const FaultRecord& record);

  Job& job_;
  std::unique_ptr<Communicator> side_channel_;  // free of the collectives that others wait in
};

}  // namespace lockstep
