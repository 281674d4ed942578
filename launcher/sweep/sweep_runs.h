// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/launch/supervisor_signals.h"
#include "launcher/sweep/sweep_result.h"

namespace lockstep {

/// The `lockstep run` processes of a sweep, of which each stands by the ranks of one run. Side by
/// side they have equal shares of the cores that this process may use, or of its GPUs.
class SweepRuns {
 public:
  SweepRuns(const SweepFlags& flags, SupervisorSignals& signals);
  /// Asks what still runs to stop with a checkpoint, and waits for it: only after an exception
  /// there is something. Two interrupts hurry it.
  ~SweepRuns();
  SweepRuns(const SweepRuns&) = delete;
  SweepRuns& operator=(const SweepRuns&) = delete;

  bool has_room() const;
  bool empty() const;
  /// Starts `run`, whose log is appended to. Throws EnvironmentError: it cannot be started.
  void start(SweepRun& run);
  /// Waits until one has ended, a signal came or a second passed, and hands a stop on to all.
  /// Returns the one that has ended, with its state, numbers and error, or nullptr.
  SweepRun* wait();

 private:
  struct Place {
    std::vector<int> threads;  ///< of its cores
    std::string gpus;          ///< for CUDA_VISIBLE_DEVICES; empty: not set
    SweepRun* run = nullptr;   ///< nullptr: free
    pid_t process = -1;
    std::size_t log_begin = 0;  ///< where what this process says begins in the run's log
    std::chrono::steady_clock::time_point started;
  };

  void ask_to_stop();
  void conclude(Place& place, int status);

  const SweepFlags& flags_;
  SupervisorSignals& signals_;
  std::vector<Place> places_;
  bool asked_ = false, asked_at_once_ = false;
};

}  // namespace lockstep
