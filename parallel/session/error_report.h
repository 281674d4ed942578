// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "core/exec/position.h"
#include "parallel/comm/faulting_rank.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {

/// An exception as people see it.
struct ErrorReport {
  std::string message;
  std::string hint;
  int exit_code = 1;
  /// Of an error that all ranks meet alike; its rank is -1 where each speaks for itself.
  FaultingRank faulting_rank = {};
  std::string details = {};  ///< whole lines
};

/// text_of() any exception, with what a FaultingRank or an ExplainedOutOfMemory adds.
ErrorReport describe(const std::exception_ptr& error);

/// `error` as the record of a process that stands at `position`; of where, only what is known: a
/// run that has not begun has no step.
FaultRecord to_record(const ErrorReport& error, int rank, const PositionNote& position);

/// Writes "[rank R host] error: ..." and, where there is one, "hint: ..." to standard error.
void print_error(const ErrorReport& report, int rank);
/// "[rank R host] warning: ...", for what does not end a run.
void print_warning(const std::string& message, int rank);

/// Reports `error` of a process that no ErrorConsensus connects to the others, and returns the exit
/// code. The launcher's rank 0 speaks at once. The others wait three seconds before they do: where
/// rank 0 failed as well, the launcher ends them meanwhile.
int report_alone(const std::exception_ptr& error);

}  // namespace lockstep
