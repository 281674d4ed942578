// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/run_hosts.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "lockstep/error.h"

namespace lockstep {

RunHosts::RunHosts(const RunFlags& flags, std::function<void(const std::string&)> say)
    : flags_(flags), say_(std::move(say)), hosts_(flags.hosts) {
  if (flags.elastic && !flags.hosts.empty()) watch_.emplace(flags.hosts_text, flags.ssh);
}

void RunHosts::read_again() {
  try {
    hosts_ = parse_hosts(flags_.hosts_text);
  } catch (const ConfigError& error) {
    say_(fmt::format("{}; the hosts stay {}", error.what(), to_string(hosts_)));
  }
}

std::string RunHosts::too_few(const std::vector<Host>& hosts) const {
  const auto [min, max] = *flags_.elastic;
  return fmt::format("{} {} not enough for the {} ranks of --ranks {}:{}",
                     to_string(hosts),
                     hosts.size() == 1 ? "is" : "are",
                     min,
                     min,
                     max);
}

RunHosts::Found RunHosts::find() {
  if (watch_) read_again();
  Found found;
  found.hosts = answering_hosts(hosts_, flags_.ssh);
  if (found.hosts.empty()) {
    found.why_none = fmt::format("none of the hosts {} answers", to_string(hosts_));
    return found;
  }
  const int slots = slots_of(found.hosts);
  RunFlags there = flags_;
  if (there.train.ranks > slots) there.train.ranks = 0;
  found.ranks = ranks_on(there, slots);
  if (found.ranks == 0) found.why_none = too_few(found.hosts);
  if (found.hosts.size() < hosts_.size())
    say_(fmt::format("only {} answer", to_string(found.hosts)));
  return found;
}

bool RunHosts::is_to_move(const std::vector<Host>& used, int ranks) {
  if (!watch_) return false;
  const auto found = watch_->look(used);
  if (!found || *found == used) return false;
  const int there = ranks_on(flags_, slots_of(*found));
  const bool all_stay = std::ranges::all_of(used, [&](const Host& host) {
    const auto same = std::ranges::find(*found, host.name, &Host::name);
    return same != found->end() && same->slots >= host.slots;
  });
  if (there > ranks || (there > 0 && !all_stay)) {
    say_(
        fmt::format("the hosts are {} now, for {} rank{} instead of {}: the ranks stop with a "
                    "checkpoint and continue there",
                    to_string(*found),
                    there,
                    there == 1 ? "" : "s",
                    ranks));
    return true;
  }
  if (there == 0 && std::exchange(refused_, *found) != *found)
    say_(too_few(*found) + ": the ranks stay where they are");
  return false;
}

}  // namespace lockstep
