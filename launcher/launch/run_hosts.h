// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/launch/host_watch.h"
#include "launcher/launch/run_flags.h"

namespace lockstep {

/// The hosts of a supervised run (--hosts), of which some may be gone, and with --ranks MIN:MAX go
/// or come while it trains.
class RunHosts {
 public:
  /// `say` gets lines for people.
  RunHosts(const RunFlags& flags, std::function<void(const std::string&)> say);

  /// Whether they may change while ranks train.
  bool elastic() const { return watch_.has_value(); }

  struct Found {
    std::vector<Host> hosts;  ///< that answer
    int ranks = 0;            ///< that the run takes of them
    std::string why_none;     ///< where that is 0, for people
  };
  /// Asks all of them, and waits for 10 s at most. With --ranks MIN:MAX a file of --hosts is read
  /// again. Throws as choose_ranks().
  Found find();

  /// To be called about once a second while `ranks` ranks train on `used`; never waits. True, and
  /// says so, where there are hosts for more ranks now, or some of these are to be given up and the
  /// others do for MIN.
  bool is_to_move(const std::vector<Host>& used, int ranks);

 private:
  void read_again();
  std::string too_few(const std::vector<Host>& hosts) const;

  const RunFlags& flags_;
  std::function<void(const std::string&)> say_;
  std::vector<Host> hosts_;
  std::optional<HostWatch> watch_;
  std::vector<Host> refused_;  // found last, and too few
};

}  // namespace lockstep
