// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/env.h"
#include "launcher/launch/host_watch.h"
#include "launcher/launch/run_flags.h"

namespace lockstep {

/// The hosts of a supervised run (--hosts, or the nodes of a Slurm allocation), of which some may
/// be gone, and with --ranks MIN:MAX go or come while it trains.
class RunHosts {
 public:
  /// `say` gets lines for people.
  RunHosts(const RunFlags& flags, std::function<void(const std::string&)> say);

  /// They are the nodes of the allocation that `variables` tell of, which `srun` asks.
  void use_nodes(const VariableMap& variables, const std::string& srun);
  /// Whether to find() them before the first start already: hosts that are watched, and nodes of
  /// which some may be gone. Others have just been given, and answer.
  bool asks_first() const { return asks_first_; }
  bool any() const { return !hosts_.empty(); }
  const std::vector<Host>& all() const { return hosts_; }
  /// Whether they are watched while ranks train.
  bool watched() const { return flags_.rank_range && any(); }

  struct Found {
    std::vector<Host> hosts;    ///< that answer
    bool all = false;           ///< none is missing
    int ranks = 0;              ///< that the run takes of them
    std::string why_none = {};  ///< where that is 0, for people
  };
  /// Asks all of them, and waits for 10 s at most, in an allocation for 30 s. Where they are
  /// watched, a file of --hosts is read again, and what was seen before counts no more. Throws as
  /// choose_ranks() without MIN:MAX.
  /// `gives_up` is asked meanwhile: whether it does not matter any more.
  Found find(const std::function<bool()>& gives_up = {});

  /// To be called at least once a second while `ranks` ranks train on `used`; never waits. True,
  /// and says so, where there are hosts for more ranks now, or hosts with ranks are to be given up
  /// and the others do for MIN.
  bool is_to_move(const std::vector<Host>& used, int ranks);
  /// A move from `used` begins for another reason.
  void move_from(const std::vector<Host>& used) { before_ = used; }
  /// After a move to `used`, ranks failed before they trained: the hosts that came with it are not
  /// used any more, or each would be tried again and again.
  void refuse_new(const std::vector<Host>& used);

 private:
  void read_again();
  std::string too_few(const std::vector<Host>& hosts) const;
  std::vector<Host> without_refused(std::vector<Host> hosts) const;

  const RunFlags& flags_;
  std::function<void(const std::string&)> say_;
  std::vector<Host> hosts_;
  std::string text_;  // from which HostWatch reads them again
  ProbeProgram probe_;
  bool asks_first_ = false;
  std::chrono::milliseconds pause_ = HostWatch::kPause;
  std::optional<HostWatch> watch_;
  std::vector<Host> before_;       // the hosts with ranks before the newest move
  std::set<std::string> refused_;  // names
  std::vector<Host> told_;         // found last, and too few
};

}  // namespace lockstep
