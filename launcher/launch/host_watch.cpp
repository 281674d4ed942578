// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/host_watch.h"

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep {

void HostWatch::begin(const std::vector<Host>& used) {
  next_ = Clock::now() + pause_;
  try {
    wanted_ = parse_hosts(hosts_);
  } catch (const ConfigError&) {
    return;  // being written, perhaps
  }
  for (const Host& host : wanted_) {
    const bool has_ranks = std::ranges::find(used, host.name, &Host::name) != used.end();
    probes_.emplace_back();
    if (!has_ranks) probes_.back().emplace(host.name, program_);
  }
}

std::optional<std::vector<Host>> HostWatch::look(const std::vector<Host>& used) {
  if (probes_.empty() && Clock::now() >= next_) begin(used);
  if (probes_.empty()) return std::nullopt;
  std::vector<Host> found;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const std::optional<bool> answer = probes_[i] ? probes_[i]->answer() : true;
    if (!answer) return std::nullopt;
    if (*answer) found.push_back(wanted_[i]);
  }
  probes_.clear();
  const bool twice = found_ == found;
  found_ = found;
  if (!twice) {
    next_ = std::min(next_, Clock::now() + pause_ / 5);
    return std::nullopt;
  }
  return found;
}

}  // namespace lockstep
