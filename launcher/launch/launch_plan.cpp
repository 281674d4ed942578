// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/launch_plan.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/processes/shell_text.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

Words mpirun_arguments(int ranks, const LaunchSite& site, const std::string& output_folder) {
  Words words{site.mpirun, "-np", std::to_string(ranks)};
  // mpirun hands the folder to a shell on other hosts, and takes what follows a colon for options.
  // Another one goes without: the logs of the run have what the ranks say of themselves. So does
  // Open MPI 5, whose daemon, where two streams of a rank come at once, takes the folder that it
  // made for the first as an error (PMIX_ERR_EXISTS, 5.0.7) and loses what the second says.
  if (site.open_mpi < 5 && plain_for_shell(output_folder) &&
      output_folder.find(':') == std::string::npos)
    append(words, {"--output-filename", output_folder});
  if (!site.hosts.empty()) {
    append(words, {"--host", to_string(site.hosts)});
    // Open MPI 4's way to write long lists of hosts shorter breaks at such names.
    if (site.open_mpi < 5 && std::ranges::any_of(site.hosts, [](const Host& host) {
          return host.name.find_first_of("_@") != std::string::npos;
        }))
      append(words, {"--mca", "regx", "naive"});
    if (site.ssh != "ssh") append(words, {"--mca", "plm_rsh_agent", site.ssh});
    for (const std::string& name : site.carried_variables) append(words, {"-x", name});
    append(words, {"--bind-to", "core:overload-allowed"});
  } else if (site.slurm_allocation) {
    append(words, {"--bind-to", "core:overload-allowed"});
  } else {
    const bool oversubscribed = ranks > site.cores.count;
    // The host list tells the slots, which mpirun would otherwise guess without a look at mask and
    // quota.
    if (oversubscribed)
      words.push_back("--oversubscribe");
    else
      append(words, {"--host", fmt::format("localhost:{}", ranks)});
    // A rank on a GPU has loader threads and the driver's, for which one core is too few.
    const bool binds = !oversubscribed && site.cores.all_of_host && site.gpus == 0;
    append(words, {"--bind-to", binds ? "core" : "none"});
  }
  if (site.survivors) append(words, {"--with-ft", "ulfm"});
  if (site.root) words.push_back("--allow-run-as-root");
  return words;
}

/// srun in an allocation of which nodes were lost. A step that had a rank on one of these may keep
/// its processors, as far as Slurm knows, for as long as the job lasts: --overlap.
Words srun_after_loss(const LaunchSite& site, int ranks) {
  Words words{site.srun, "--overlap"};
  if (site.hosts.empty()) return words;  // all are there again
  std::vector<std::string> names;
  for (const Host& host : site.hosts)
    if (int(names.size()) < ranks) names.push_back(host.name);
  append(words,
         {fmt::format("--nodes={}", names.size()),
          fmt::format("--nodelist={}", fmt::join(names, ","))});
  return words;
}

}  // namespace

std::vector<std::string> launch_command(Launcher launcher,
                                        int ranks,
                                        const LaunchSite& site,
                                        const std::vector<std::string>& arguments,
                                        const std::string& output_folder) {
  Words words;
  if (launcher == Launcher::mpirun) words = mpirun_arguments(ranks, site, output_folder);
  // Without --kill-on-bad-exit, ranks on other nodes would wait for a dead one for ever.
  if (launcher == Launcher::srun) {
    words = site.lost_nodes ? srun_after_loss(site, ranks) : Words{site.srun};
    append(words,
           {"--mpi=pmix", "--ntasks", std::to_string(ranks), "--kill-on-bad-exit=1", "--label"});
  }
  // From Slurm 22.05 on, srun does not take it from the allocation.
  if (launcher == Launcher::srun && site.cpus_per_task > 0)
    words.push_back(fmt::format("--cpus-per-task={}", site.cpus_per_task));
  append(words, {site.program, site.command});
  for (const std::string& argument : arguments) {
    // mpirun would take a lone colon for the start of another program.
    if (argument == ":" && launcher == Launcher::mpirun)
      words.back() += "=:";
    else
      words.push_back(argument);
  }
  return words;
}

ChildPlan plan_child(Launcher launcher, const LaunchSite& site) {
  ChildPlan child;
  if (launcher == Launcher::none) return child;
  child.after_error_s = child.after_silence_s = kLauncherPatience;
  if (launcher == Launcher::srun) {
    child.after_silence_s = kSrunPatience;
    child.sigterm_first = true;
    return child;
  }
  if (!site.hosts.empty()) child.after_silence_s = kLauncherPatienceForHosts;
  child.ranks_are_children = site.hosts.empty() && !site.slurm_allocation;
  return child;
}

const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::none:
      return "no launcher";
    case Launcher::mpirun:
      return "mpirun";
    case Launcher::srun:
      return "srun";
  }
  return "";
}

}  // namespace lockstep
