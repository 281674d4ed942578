// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/host/cores.h"
#include "launcher/launch/hosts.h"
#include "launcher/launch/supervisor.h"

namespace lockstep {

/// How ranks are started. `none`: a single rank, as a plain process.
enum class Launcher { none, mpirun, srun };

/// What is known of the machine when ranks are to be started.
struct LaunchSite {
  std::string mpirun, srun;       ///< their paths; empty where there is none
  int open_mpi = 0;               ///< the version of mpirun: 4, 5; 0: not known
  std::string other_mpi;          ///< whose mpirun it is, if not Open MPI's: "MPICH"
  std::string program;            ///< path of this program
  std::string command = "train";  ///< of it, that ranks run
  Cores cores;
  int gpus = 0;                   ///< of this host, that ranks would work on; 0: they work on cores
  bool root = false;              ///< mpirun needs a permission
  bool survivors = false;         ///< mpirun lets ranks outlive the death of another one (ULFM)
  bool slurm_allocation = false;  ///< mpirun and srun know the hosts themselves
  int cpus_per_task = 0;          ///< of the allocation; 0: it does not say
  std::vector<Host> hosts;        ///< empty: this one, or all of the allocation
  bool lost_nodes = false;        ///< the allocation has lost some since it began
  std::string ssh = "ssh";
  /// Of this process: LOCKSTEP_* ones are carried to other hosts.
  std::vector<std::string> carried_variables;

  int devices() const { return gpus > 0 ? gpus : cores.count; }
};

/// The command that starts `lockstep train` (or site.command) with `arguments` on `ranks` ranks.
/// Raw output of each rank is copied below `output_folder` unless it is empty: mpirun writes
/// 1/rank.0/stdout and stderr itself (not where the path has a colon, and not Open MPI 5's), srun
/// prefixes lines with the rank.
///
/// Binding is the launchers' own, which know the topology (mpirun by hwloc): each rank to a core,
/// and from three ranks on mpirun deals them to NUMA domains in turn. Nothing is bound where more
/// ranks than cores share a host, or where a mask or quota hides cores from this process, since
/// mpirun would bind to hidden ones; nor are ranks on GPUs. Under Slurm the site's own
/// configuration binds. On other hosts, where it is not known yet what ranks will work on, they are
/// bound to cores; one on a GPU then leaves its core for the threads near that GPU, see Note
/// [Processors of a rank on a GPU].
std::vector<std::string> launch_command(Launcher launcher,
                                        int ranks,
                                        const LaunchSite& site,
                                        const std::vector<std::string>& arguments,
                                        const std::string& output_folder);

/// A child whose ranks are started so: whether they are its children, and how long it may take to
/// end when a rank has failed. Command, output and grace are the caller's.
ChildPlan plan_child(Launcher launcher, const LaunchSite& site);

/// "mpirun", "srun", "no launcher"
const char* name_of(Launcher launcher);

}  // namespace lockstep
