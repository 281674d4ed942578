// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/env.h"
#include "launcher/launch/launcher_output_parser.h"
#include "launcher/launch/supervisor_signals.h"
#include "parallel/console/output_relay.h"

namespace lockstep {

/// ChildPlan::after_error_s, and after_silence_s where ranks are on several hosts.
inline constexpr double kLauncherPatience = 20, kLauncherPatienceForHosts = 2;
/// after_silence_s of srun: more than ranks take to end with their records.
inline constexpr double kSrunPatience = 10;
/// More than ranks take to find out that they outlive the death of another one.
inline constexpr double kSurvivorPatience = 80;

/// A launcher with its ranks, as a child process.
struct ChildPlan {
  std::vector<std::string> command;  ///< the first is a path
  VariableMap variables;             ///< in addition to those of this process
  /// Standard output stays that of this process: of a child that bears the loss of its reader, as
  /// a rank does and mpirun does not.
  bool inherits_output = false;
  /// Its lines begin with the rank ("1: ", srun --label): they are cut off and each rank's copied
  /// to a file below `output_folder`.
  bool labelled = false;
  std::string output_folder;
  bool ranks_are_children = false;  ///< of the launcher, all of them: it is to end after them
  double grace_s = 60;              ///< from the wish to stop until SIGTERM
  /// Asked at least once a second; true: the ranks are to stop, as at a signal to this process.
  std::function<bool()> is_to_move = {};
  /// From the first error of a rank until a launcher that does not end the others is killed; 0:
  /// never. mpirun 4.1 hangs where a stranger holds a connection to it.
  double after_error_s = 0;
  /// The same where that error tells of silence: of the ranks on a host that is gone, mpirun waits
  /// for ever for what its daemon there would say, and srun until Slurm's KillWait is over.
  double after_silence_s = 0;
  /// Such a launcher gets SIGTERM first, and SIGKILL 5 s later: where srun is killed, its ranks on
  /// all nodes stay.
  bool sigterm_first = false;
  /// Where a rank's end does not end the others: whether they are still starting. SIGUSR1 would end
  /// some of them, so that a wish to stop is SIGTERM at once; nothing is lost by that.
  std::function<bool()> is_starting = {};
  /// Called where ranks have outlived the death of another one, with how many they are.
  std::function<void(int)> on_survivors = {};
  /// Asked once a second from then on, and from the wish to stop: with what exit code rank 0 has
  /// ended. A launcher that has not 20 s later is ended, and that is the exit code then. Open MPI
  /// 5.0.11's mpirun may hang where a signal comes as it ends, or with a daemon that went away.
  std::function<std::optional<int>()> noted_end = {};
};

/// Standard output and error of a supervising process. What it and its children say passes through
/// here, so that no reader that stops or leaves stops them.
class SupervisorOutput {
 public:
  /// `log`: a file that gets a line about an output that has failed, once it is there; empty: none.
  explicit SupervisorOutput(std::string log = {}) : log_(std::move(log)) {}
  /// Both go to `file`, whose name is for messages, and which is to stay open. Where it fails,
  /// `elsewhere` gets a line.
  SupervisorOutput(int file, const std::string& name, OutputRelay& elsewhere)
      : out_(file, name), err_(file, name), elsewhere_(&elsewhere) {}

  OutputRelay& out() { return out_; }
  OutputRelay& err() { return err_; }
  /// Writes what the readers take, and tells of one that is lost on what is left.
  void push();
  /// Waits for readers as long as they read.
  void finish(int patience_ms);

 private:
  void tell(const std::string& trouble, OutputRelay& other);
  void write_log();

  OutputRelay out_{1, "standard output"};
  OutputRelay err_{2, "standard error"};
  OutputRelay* elsewhere_ = nullptr;
  std::string log_ = {};
  std::vector<std::string> untold_;  // lines for log_, which is not there yet
};

/// How a child has ended.
struct Ending {
  /// 128 + signal where a signal ended it, as shells have it; 5 where a rank left the job without a
  /// word, whatever mpirun makes of it.
  int exit_code = 0;
  bool stop_requested = false;  ///< by a signal to this process
  bool moves = false;           ///< ... or by ChildPlan::is_to_move
  bool out_of_grace = false;    ///< ... and it had to be ended, or was to be ended at once
  bool starting = false;        ///< ... by ChildPlan::is_starting
  ReportedFault fault;          ///< where exit_code is neither 0 nor 75
  /// When a rank or the launcher first told of it, and when all were gone.
  std::chrono::system_clock::time_point reported, ended;
};

/// Runs a launcher in a process group of its own and waits until it and all its descendants on
/// this host are gone: the processes of a killed launcher are killed, and mpirun where it hangs
/// after the end of its ranks or after an error of one (exit code 137). Whichever of
/// SupervisorSignals comes is handed on as SIGUSR1, which mpirun and srun forward to every rank,
/// and repeated every second, since ranks that are still starting ignore it; further ones change
/// nothing. After the grace time, and at the second SIGINT, SIGTERM follows and 5 s later SIGKILL.
/// Where this process dies, the child gets SIGTERM. Throws EnvironmentError: the child cannot be
/// started.
Ending supervise(const ChildPlan& plan, SupervisorSignals& signals, SupervisorOutput& output);

}  // namespace lockstep
