// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

class Communicator;
class FaultLog;
class Job;
class Watchdog;

/// What the session and the program lockstep use of a Job, in addition to what every program may.
struct JobInternals {
  /// The ranks on host memory, without notes of where this one stands and without checks.
  Communicator& plain;
  Watchdog& watchdog;
  /// Where this rank's fault records go.
  FaultLog& fault_log;

  static JobInternals of(const Job& job);
};

}  // namespace lockstep
