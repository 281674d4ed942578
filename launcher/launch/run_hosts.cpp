// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/run_hosts.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "launcher/launch/slurm_nodes.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

bool has(const std::vector<Host>& hosts, const std::string& name) {
  return std::ranges::find(hosts, name, &Host::name) != hosts.end();
}

/// Whether `found` has the slots that `ranks` ranks on `used`, filled in this order, take.
bool all_stay(const std::vector<Host>& used, int ranks, const std::vector<Host>& found) {
  for (const Host& host : used) {
    const int taken = std::min(host.slots, ranks);
    ranks -= taken;
    const auto same = std::ranges::find(found, host.name, &Host::name);
    if (taken > (same == found.end() ? 0 : same->slots)) return false;
  }
  return true;
}

}  // namespace

RunHosts::RunHosts(const RunFlags& flags, std::function<void(const std::string&)> say)
    : flags_(flags),
      say_(std::move(say)),
      hosts_(flags.hosts),
      text_(flags.hosts_text),
      probe_{.path = flags.ssh},
      asks_first_(watched()) {}

void RunHosts::use_nodes(const VariableMap& variables, const std::string& srun) {
  hosts_ = allocated_nodes(variables);
  const NodesBefore before = nodes_before_start(hosts_, variables);
  asks_first_ = before.some_are_gone || before.has_steps;
  text_ = to_string(hosts_);
  probe_ = {.path = srun, .kind = ProbeProgram::Kind::srun};
  pause_ = std::chrono::minutes(1);  // each question is a job step, of which Slurm keeps accounts
}

void RunHosts::read_again() {
  try {
    hosts_ = parse_hosts(text_);
  } catch (const ConfigError& error) {
    say_(fmt::format("{}; the hosts stay {}", error.what(), to_string(hosts_)));
  }
}

std::string RunHosts::too_few(const std::vector<Host>& hosts) const {
  const auto [min, max] = *flags_.rank_range;
  return fmt::format("{} for the batch to be planned on {} ranks or more of --ranks {}:{}",
                     hosts.empty() ? "no host answers" : to_string(hosts) + " do not suffice",
                     min,
                     min,
                     max);
}

std::vector<Host> RunHosts::without_refused(std::vector<Host> hosts) const {
  std::erase_if(hosts, [&](const Host& host) { return refused_.contains(host.name); });
  return hosts;
}

RunHosts::Found RunHosts::find(const std::function<bool()>& gives_up) {
  if (watched()) {
    read_again();
    watch_.emplace(text_, probe_, pause_);
  }
  // Where they are watched, a host that is slow to answer is used as soon as it does.
  constexpr int kBriefly = 2, kLong = 5;  // seconds
  const std::vector<Host> asked = without_refused(hosts_);
  const bool nodes = probe_.kind == ProbeProgram::Kind::srun;
  Found found{.hosts = nodes ? answering_nodes(asked, probe_, gives_up)
                             : answering_hosts(asked, probe_, watched() ? kBriefly : kLong)};
  if (!nodes && watched() && found.hosts.size() < asked.size() &&
      ranks_on(flags_, slots_of(found.hosts)) == 0)
    found.hosts = answering_hosts(asked, probe_, kLong);
  if (found.hosts.empty()) {
    found.why_none = fmt::format("none of the hosts {} answers", to_string(hosts_));
    return found;
  }
  const int slots = slots_of(found.hosts);
  found.all = found.hosts.size() == hosts_.size();
  RunFlags there = flags_;
  // An allocation may take more ranks than it has tasks.
  if (there.train.ranks > slots && !(nodes && found.all)) there.train.ranks = 0;
  found.ranks = ranks_on(there, slots);
  if (found.ranks == 0) found.why_none = too_few(found.hosts);
  if (!found.all) say_(fmt::format("only {} answer", to_string(found.hosts)));
  return found;
}

bool RunHosts::is_to_move(const std::vector<Host>& used, int ranks) {
  auto looked = watch_ ? watch_->look(used) : std::nullopt;
  if (!looked) return false;
  const std::vector<Host> found = without_refused(std::move(*looked));
  const int there = ranks_on(flags_, slots_of(found));
  const bool stay = all_stay(used, ranks, found);
  if (there > ranks || (there > 0 && !stay)) {
    say_(
        fmt::format("the hosts are {} now, for {} rank{} instead of {}: the ranks stop with a "
                    "checkpoint and continue there",
                    to_string(found),
                    there,
                    there == 1 ? "" : "s",
                    ranks));
    before_ = used;
    return true;
  }
  if (there == 0 && !stay && std::exchange(told_, found) != found)
    say_(too_few(found) + ": the ranks stay where they are");
  return false;
}

void RunHosts::refuse_new(const std::vector<Host>& used) {
  for (const Host& host : used) {
    if (has(before_, host.name)) continue;
    refused_.insert(host.name);
    say_(fmt::format("{} is not used any more, as ranks failed before they trained with it",
                     host.name));
  }
}

}  // namespace lockstep
