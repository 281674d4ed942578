// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// 4 of "mpirun (Open MPI) 4.1.4", which mpirun --version prints; 0 where it is not Open MPI's.
int open_mpi_version(std::string_view printed);

/// The same of the program at this path, which is started for it; 0 where it does not answer.
int open_mpi_version_of(const std::string& mpirun);

}  // namespace lockstep
