// SPDX-License-Identifier: Apache-2.0
#include "launcher/scale/scale_machine.h"

#include <algorithm>
#include <charconv>

namespace lockstep {
namespace {

/// Slots of a host; 0: not known.
int slots_a_host(const LaunchSite& site, int hosts) {
  if (!site.hosts.empty()) return std::ranges::max(site.hosts, {}, &Host::slots).slots;
  return site.slurm_allocation && hosts > 0 ? (site.cores.count - 1) / hosts + 1 : 0;
}

}  // namespace

int hosts_of(const ScaleFlags& flags, const LaunchSite& site, const VariableMap& variables) {
  if (flags.sbatch) return 0;
  if (!site.hosts.empty()) return int(site.hosts.size());
  if (!site.slurm_allocation) return 1;
  for (const char* name : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) {
    const auto found = variables.find(name);
    if (found == variables.end()) continue;
    const std::string& text = found->second;
    int hosts = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hosts);
    if (error == std::errc() && end == text.data() + text.size() && hosts > 0) return hosts;
  }
  return 0;
}

std::optional<Machine> machine_of(const ScaleFlags& flags,
                                  const LaunchSite& site,
                                  bool on_gpus,
                                  int hosts) {
  if (hosts != 1 && !flags.network) return std::nullopt;
  Machine machine{.network = flags.network ? *flags.network : shared_memory_network(),
                  .cores = 0,
                  .on_gpus = on_gpus};
  int& ranks_per_host = machine.network.ranks_per_host;
  if (hosts == 1) {
    ranks_per_host = std::max(ranks_per_host, flags.ranks.back());
    if (!on_gpus) machine.cores = site.cores.count;
    return machine;
  }
  const int slots = slots_a_host(site, hosts);
  if (slots > 0) ranks_per_host = slots;
  if (!on_gpus) machine.cores = slots;
  return machine;
}

}  // namespace lockstep
