// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Whose mpirun it is.
struct MpirunVersion {
  int open_mpi = 0;   ///< 4 of "mpirun (Open MPI) 4.1.4"; 0 where it is not Open MPI's
  std::string other;  ///< "MPICH", "Intel MPI", whose options are others; empty: not known
};

/// From what mpirun --version prints.
MpirunVersion mpirun_version(std::string_view printed);

/// Of the program at this path, which is started for it; nothing where it does not answer.
MpirunVersion mpirun_version_of(const std::string& mpirun);

}  // namespace lockstep
