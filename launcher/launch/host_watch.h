// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/launch/host_probe.h"
#include "launcher/launch/hosts.h"

namespace lockstep {

/// Looks for hosts that come and go while ranks train: reads the file of --hosts again, and asks
/// hosts without ranks whether they answer. Those with ranks are not asked, as their ranks tell. Of
/// one thread.
class HostWatch {
 public:
  static constexpr std::chrono::milliseconds kPause{
      5000};  ///< between two looks; a fifth after a change

  /// `hosts`: as --hosts has them, a list or the name of a file.
  HostWatch(std::string hosts, ProbeProgram program, std::chrono::milliseconds pause = kPause)
      : hosts_(std::move(hosts)),
        program_(std::move(program)),
        pause_(pause),
        next_(Clock::now() + pause) {}

  /// To be called at least once a second; never waits. `used`: the hosts with ranks, in the order
  /// of
  /// --hosts. Returns the hosts that there are, in that order, where a look has ended that found
  /// the same as the one before: a file may be half written, and a host that is starting may answer
  /// once. A file that cannot be read changes nothing.
  std::optional<std::vector<Host>> look(const std::vector<Host>& used);

 private:
  using Clock = std::chrono::steady_clock;

  void begin(const std::vector<Host>& used);

  std::string hosts_;
  ProbeProgram program_;
  std::chrono::milliseconds pause_;
  Clock::time_point next_;
  std::vector<Host> wanted_;  // in a look: as it has read them
  std::vector<std::optional<HostProbe>>
      probes_;  // one for each; none where ranks are; empty: between looks
  std::optional<std::vector<Host>> found_;  // by the look before
};

}  // namespace lockstep
