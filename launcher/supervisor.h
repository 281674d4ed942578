// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/env.h"
#include "launcher/output_watch.h"
#include "launcher/supervisor_signals.h"

namespace lockstep {

/// A launcher with its ranks, as a child process.
struct ChildPlan {
  std::vector<std::string> command;  ///< the first is a path
  VariableMap variables;             ///< beside those of this process
  /// Its lines begin with the rank ("1: ", srun --label): they are cut off and each rank's copied
  /// to a file below `output_folder`. Otherwise standard output stays that of this process.
  bool labelled = false;
  std::string output_folder;
  bool ranks_are_children = false;  ///< of the launcher, all of them: it is to end after them
  double grace_s = 60;              ///< from the wish to stop until SIGTERM
};

/// How a child has ended.
struct Ending {
  /// 128 + signal where a signal ended it, as shells have it; 5 where a rank left the job without a
  /// word, whatever mpirun makes of it.
  int exit_code = 0;
  bool stop_asked = false;    ///< by a signal to this process
  bool out_of_grace = false;  ///< ... and it had to be ended, or was to be ended at once
  ReportedCulprit culprit;    ///< where exit_code is neither 0 nor 75
};

/// Runs a launcher in a process group of its own and waits until it and all its descendants on
/// this host are gone: what a killed launcher left behind is killed, and mpirun where it hangs
/// after the end of its ranks (exit code 137). Whichever of SupervisorSignals comes is handed on as
/// SIGUSR1, which mpirun and srun forward to every rank, and repeated every second, since ranks
/// that are still starting ignore it; further ones change nothing. After the grace time, and at the
/// second SIGINT, SIGTERM follows and 5 s later SIGKILL. Where this process dies, the child gets
/// SIGTERM. Throws EnvironmentError: the child cannot be started.
Ending supervise(const ChildPlan& plan, SupervisorSignals& signals);

}  // namespace lockstep
