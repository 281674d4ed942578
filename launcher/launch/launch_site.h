// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/launch/launch_plan.h"
#include "launcher/launch/run_flags.h"

namespace lockstep {

/// What there is to start ranks with: programs in $PATH, cores, hosts, a Slurm allocation.
/// Throws EnvironmentError: this process is itself a rank of a launcher.
LaunchSite launch_site(const RunFlags& flags);

/// --launcher; auto is srun inside an allocation, else mpirun, and for one rank on this host needs
/// neither. Throws EnvironmentError: it is not installed; ConfigError: --hosts under srun.
Launcher choose_launcher(const RunFlags& flags, const LaunchSite& site, int ranks);

/// Whether ranks are to outlive the death of another one (LaunchSite::survivors): --ranks MIN:MAX
/// allows fewer, mpirun starts them, and this MPI has ULFM, which is Open MPI's from version 5 on.
/// A host that is lost with its ranks ends all: mpirun cannot do without its own process there.
bool may_outlive(const RunFlags& flags, const LaunchSite& site, Launcher launcher, int ranks);

}  // namespace lockstep
