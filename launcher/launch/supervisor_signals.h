// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace lockstep {

/// The signals that ask a supervised job to stop: SIGTERM, SIGINT, SIGUSR1 and, unless it was
/// ignored (nohup), SIGHUP. While it lives they, and SIGCHLD, are blocked in the process and read
/// from a descriptor, so that none is lost and none interrupts. For programs of one thread.
class SupervisorSignals {
 public:
  /// Throws EnvironmentError: the system has no descriptors left.
  SupervisorSignals();
  ~SupervisorSignals();
  SupervisorSignals(const SupervisorSignals&) = delete;
  SupervisorSignals& operator=(const SupervisorSignals&) = delete;

  /// Becomes readable with a signal; read() takes what has come.
  int descriptor() const { return descriptor_; }
  void read();
  /// Sleeps until a signal came or `seconds` passed, and takes what came.
  void wait(double seconds);

  /// A stop was asked for, once or more often.
  bool requested() const { return requested_; }
  /// SIGINT came twice: now, not at the end of a grace time.
  bool at_once() const { return interrupts_ >= 2; }
  /// The mask that children get back.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
  int descriptor_ = -1;
  bool requested_ = false;
  int interrupts_ = 0;
};

}  // namespace lockstep
