// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "core/base/env.h"

namespace lockstep {

/// Who started this process, as far as it matters for connecting ranks.
enum class LaunchedBy {
  none,
  mpi,         ///< mpirun or srun with a process manager that MPI_Init can talk to
  slurm_only,  ///< srun without a process manager: MPI could not connect the ranks
  variables,   ///< rank variables are set, but no MPI launcher is there
};

/// What the environment says about this process's place.
struct RankDiscovery {
  int rank = 0;
  int size = 1;         ///< 0: the launcher does not say (PMIx); MPI knows
  int local_rank = -1;  ///< among the ranks of this host; -1: not said
  LaunchedBy launched_by = LaunchedBy::none;
  std::string source;  ///< "mpirun (OMPI_COMM_WORLD_RANK)", for people
  /// Inside a Slurm allocation, whether or not srun started this process.
  bool slurm_allocation = false;
  /// Tasks of the allocation where `srun` is missing before the command; otherwise 0.
  int slurm_tasks_unused = 0;
};

/// Finds rank, size and local rank. The first that is there tells the rank: LOCKSTEP_RANK and
/// LOCKSTEP_WORLD_SIZE; RANK and WORLD_SIZE (both, as torchrun sets them); OMPI_COMM_WORLD_*;
/// PMI_RANK and PMI_SIZE; MV2_COMM_WORLD_*; PMIX_RANK; SLURM_PROCID. Slurm's come last, since
/// mpirun inside an allocation inherits them and a batch script without srun has them as a single
/// process.
///
/// The two that people set by hand must agree with each other and with the launcher's. Launchers'
/// own variables are not compared, since an inner launcher inherits the outer one's.
///
/// Throws EnvironmentError: numbers that are none, rank >= size, half of a pair, contradictions,
/// and several ranks that no MPI connects.
RankDiscovery discover_rank(const VariableMap& variables);

/// The rank as the launcher's own variables say it, unchecked; 0 where they say nothing. For
/// messages before the ranks are known.
int launched_rank(const VariableMap& variables);

/// What MPI says once it is initialised is the authority.
/// Throws EnvironmentError naming both where the variables said something else; `library` tells the
/// MPI that this process has, ", /usr/lib/libmpi.so.40 (Open MPI v4.1.4)".
void check_against_mpi(const RankDiscovery& discovery,
                       int mpi_rank,
                       int mpi_size,
                       const std::function<std::string()>& library = {});

}  // namespace lockstep
