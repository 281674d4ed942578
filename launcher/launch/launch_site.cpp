// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/launch_site.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include "core/base/check.h"
#include "core/base/env.h"
#include "launcher/launch/host_probe.h"
#include "launcher/launch/mpirun_version.h"
#include "launcher/launch/slurm_nodes.h"
#include "launcher/processes/program_path.h"
#include "launcher/processes/shell_text.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/session/device_choice.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {

Launcher choose_launcher(const RunFlags& flags, const LaunchSite& site, int ranks) {
  const bool srun = flags.launcher == "srun" ||
                    (flags.launcher == "auto" && site.slurm_allocation && site.hosts.empty());
  if (srun && !site.srun.empty()) {
    LOCKSTEP_CHECK(site.hosts.empty(), ConfigError, "--hosts is for mpirun: Slurm knows its own");
    return Launcher::srun;
  }
  if (flags.launcher == "srun")
    throw EnvironmentError("--launcher srun: srun is not in PATH", "use --launcher mpirun");
  if (!site.mpirun.empty() && site.other_mpi.empty()) return Launcher::mpirun;
  if (flags.launcher == "auto" && ranks == 1 && site.hosts.empty()) return Launcher::none;
  if (!site.other_mpi.empty())
    throw EnvironmentError(
        fmt::format("{} is that of {}, and lockstep starts ranks by Open MPI's or by srun",
                    site.mpirun,
                    site.other_mpi),
        fmt::format("start them yourself: mpiexec -n {} lockstep train ...; or put Open MPI's "
                    "mpirun first on PATH, if Lockstep was built with it",
                    ranks));
  throw EnvironmentError("mpirun is not in PATH", "on Debian: apt install openmpi-bin");
}

namespace {

/// mpirun takes the name apart at spaces, and hands it to a shell on other hosts.
void check_ssh(const std::string& ssh, const VariableMap& variables) {
  LOCKSTEP_CHECK(plain_for_shell(ssh),
                 ConfigError,
                 "--ssh '{}': expected a program, without spaces or characters that a shell "
                 "would read; a script can call it with options",
                 ssh);
  const bool found = ssh.find('/') == std::string::npos ? !find_program(ssh, variables).empty()
                                                        : access(ssh.c_str(), X_OK) == 0;
  LOCKSTEP_CHECK(
      found, EnvironmentError, "--ssh {}: there is no such program that can be started", ssh);
}

}  // namespace

LaunchSite launch_site(const RunFlags& flags) {
  const VariableMap variables = process_variables();
  const RankDiscovery discovery = discover_rank(variables);
  if (discovery.launched_by != LaunchedBy::none)
    throw EnvironmentError(
        fmt::format("lockstep was itself started as a rank, by {}", discovery.source),
        "lockstep run and scale start mpirun or srun; under them, use lockstep train");
  LaunchSite site;
  site.mpirun = find_program("mpirun", variables);
  if (!site.mpirun.empty()) {
    MpirunVersion version = mpirun_version_of(site.mpirun);
    site.open_mpi = version.open_mpi;
    site.other_mpi = std::move(version.other);
  }
  site.srun = find_program("srun", variables);
  site.program = own_path();
  site.root = geteuid() == 0;
  site.slurm_allocation = discovery.slurm_allocation;
  site.hosts = flags.hosts;
  if (!flags.hosts.empty()) check_ssh(flags.ssh, variables);
  site.ssh = flags.ssh;
  site.cores = available_cores();
  // Hosts and allocations say how many ranks they take.
  if (site.hosts.empty() && !site.slurm_allocation) site.gpus = usable_gpus(flags.train.device);
  if (!site.hosts.empty()) site.cores = {slots_of(site.hosts), true};
  if (site.slurm_allocation && site.hosts.empty()) {
    const auto per_node = variables.find("SLURM_TASKS_PER_NODE");
    const int tasks = per_node == variables.end() ? 0 : allocated_tasks(per_node->second);
    site.cores.count = std::max({1, tasks, tasks == 0 ? discovery.slurm_tasks_unused : 0});
  }
  if (const auto cpus = variables.find("SLURM_CPUS_PER_TASK"); cpus != variables.end())
    site.cpus_per_task = allocated_tasks(cpus->second);  // a plain number
  for (const auto& [name, value] : variables)
    // The Python environment may hold NVIDIA's libraries.
    if (name.starts_with("LOCKSTEP_") || name == "VIRTUAL_ENV" || name == "CONDA_PREFIX")
      site.carried_variables.push_back(name);
  site.carried_variables.insert(
      site.carried_variables.end(),
      {"LOCKSTEP_STARTED", "LOCKSTEP_RESTARTED", "LOCKSTEP_SNAPSHOTS", "LOCKSTEP_SURVIVORS"});
  return site;
}

bool may_outlive(const RunFlags& flags, const LaunchSite& site, Launcher launcher, int ranks) {
  return launcher == Launcher::mpirun && site.open_mpi >= 5 && MpiSession::has_ulfm() &&
         !site.slurm_allocation && flags.rank_range && ranks > flags.rank_range->min;
}

}  // namespace lockstep
