// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the .cpp files that speak MPI. The C++ bindings that MPI dropped are not wanted.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace lockstep {

/// Throws CommError with MPI's own text. `call` is the source of the call.
[[noreturn]] void throw_mpi_error(int code, const char* call);

}  // namespace lockstep

/// Turns the code of an MPI call into a CommError.
#define LOCKSTEP_MPI_TRY(call)                                                               \
  do {                                                                                       \
    if (const int lockstep_mpi_code = (call); lockstep_mpi_code != MPI_SUCCESS) [[unlikely]] \
      ::lockstep::throw_mpi_error(lockstep_mpi_code, #call);                                 \
  } while (false)
