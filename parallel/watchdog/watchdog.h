// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/exec/communicator.h"
#include "core/exec/position.h"
#include "core/host/ip_address.h"
#include "lockstep/watch_limits.h"
#include "parallel/watchdog/fault_record.h"
#include "parallel/watchdog/heartbeat_tree.h"

namespace lockstep {

/// A thread on every rank, in addition to MPI and never through it, that sees a dead, frozen or
/// stuck rank and ends this one with a record that names the faulting rank.
///
/// Ranks are a tree (HeartbeatTree): each holds a TCP connection to its parent, which of up to 33
/// ranks is rank 0, made through an address and a secret that travel over `host` once. Every
/// kBeatSeconds a rank tells its parent where it stands (Position), and a parent its children that
/// it lives; what a rank between has heard of those below it travels up with its own beat, in short
/// (HeartbeatRelay). Three things end a run:
///   - a connection that closes without a goodbye: that rank is dead (seen within milliseconds);
///   - no beat for `training_s`: frozen, or its host or network is gone. Where a rank and all below
///     it are silent, it is the rank;
///   - beats, but on no rank a tick for longer than the limit of its stage: stuck. The faulting
///     rank is the rank that is in no collective, else the one that entered the fewest.
/// Rank 0 learns of a silence or a stall later by at most kBeatSeconds for each rank between.
/// The limit of training is at least three times the longest time without a tick that training has
/// shown so far, since a device may compute long between two signs of life.
/// A thread that was itself not run for a while (SIGSTOP, a sleeping machine) accuses no rank for
/// what it missed. A rank under a debugger is left alone. Times are of the monotonic clock.
///
/// Whoever judges (rank 0; a child by itself where its parent is the faulting rank, for all below
/// it) has `failure_handler` called and tells the others, whose `failure_handler` are called with
/// the same record; then each ends its process with the record's exit code, by _exit(): the
/// training thread may never return. A rank ends after its parent, and that once all below have
/// called theirs (Peers::await_parent()). Once a rank has said goodbye, those below it are not
/// watched, as no rank is once rank 0 has.
class Watchdog {
 public:
  /// Called at most once, on the watchdog's thread, before the process ends. `speaks`: whether this
  /// rank is the one to put the record on the screen; every rank writes it into its own log.
  using FailureHandler = std::function<void(const FaultRecord&, bool reports)>;

  /// Collective over `host`, whose memory is the processor's. `position` must outlive it. Where a
  /// rank cannot reach its parent, no rank is watched, and blindness() says so.
  /// `has_launcher`: the process that started this one stands by it, and where that is gone this
  /// rank ends as well. One rank without a launcher has no thread.
  /// `job_addresses` of all hosts: where a rank is frozen or no rank makes progress, the record's
  /// details name who else is connected to ranks (foreign_connections()). `fan_out` of the tree.
  Watchdog(Communicator& host,
           const Position& position,
           FailureHandler failure_handler = {},
           const WatchLimits& limits = {},
           bool has_launcher = false,
           std::vector<IpAddress> job_addresses = {},
           int fan_out = watch::HeartbeatTree::kFanOut);
  /// Says goodbye. Where an exception is in flight it says so, and is not taken for dead.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Which ranks cannot reach their parent, and what was tried; empty where all are watched. The
  /// same on all ranks.
  const std::string& blindness() const;

  /// This rank has met an error, has reported it, and ends: the others end with the same exit
  /// code, naming it in their logs, instead of taking it for dead. Returns once that is sent.
  void announce(const FaultRecord& record);

  /// From now on a rank that died ends no other one: `failure_handler` is called as ever, and then
  /// this process has `patience_s` to destroy the Watchdog, before it is ended after all. A rank of
  /// this machine that is frozen is killed, and counts as dead. Once: from then on this rank kills
  /// further ones that are frozen, and judges none. 0: it ends the others again, also one that died
  /// before. `on_death` is called on the watchdog's thread as soon as it knows, before
  /// `failure_handler`.
  void outlive_deaths(double patience_s, std::function<void()> on_death = {});
  /// The record of such a death, waited for until `seconds` have passed.
  std::optional<FaultRecord> await_death(double seconds);
  /// Waits as long for it to be written and sent.
  void await_report(double seconds);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
