// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/doctor/environment.h"
#include "launcher/doctor/finding.h"

/// Checks of the host: MPI, limits, processor, and the folder for results.
namespace lockstep::doctor {

/// Whether MPI connects ranks; outside of a launcher two are started for a moment.
Finding check_mpi(const Environment& environment);
/// Whether MPI takes pointers to a GPU's memory.
Finding check_cuda_aware_mpi(const Environment& environment);

/// Which TCP ports a run opens, on which interfaces, and to whom.
Finding check_ports(const Environment& environment);

/// /dev/shm, over which the ranks of a host talk.
Finding check_shared_memory(const Environment& environment);
/// The limit on locked memory, which network cards need.
Finding check_locked_memory(const Environment& environment);
Finding check_open_files(const Environment& environment);

/// What this process is bound to, and across how many NUMA nodes.
Finding check_affinity(const Environment& environment);
/// Cores of this host against its ranks; GPUs, where there are `gpus`.
Finding check_cores(const Environment& environment, int gpus);
/// Instruction sets, and what one core reaches in GEMMs.
Finding check_cpu(const Environment& environment);

/// Room in the folder for results, and how long its disk takes to have a file.
Finding check_storage(const Environment& environment);

/// The cores of these hardware threads, at least 1; a cgroup's quota counts.
int usable_cores(const Environment& environment, const std::vector<int>& threads);

}  // namespace lockstep::doctor
