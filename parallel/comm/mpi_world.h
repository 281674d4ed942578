// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the .cpp files that speak MPI.
#include "parallel/comm/mpi_try.h"

namespace lockstep {

/// All ranks of the job: MPI_COMM_WORLD, or what MpiSession::shrink() has left of it. MPI is to be
/// initialised.
MPI_Comm mpi_world();

/// The lowest rank of mpi_world() that shares this one's host. Collective over mpi_world() at its
/// first call, and at the first one after a shrink.
int lowest_rank_on_host();

/// Whether `code` says that a rank died, or that another one has revoked the communicator for that
/// reason.
bool tells_of_a_death(int code);

/// A communicator that is revoked where a rank is found to have died, for as long as this lives.
class RevocableComm {
 public:
  explicit RevocableComm(MPI_Comm comm);
  ~RevocableComm();
  RevocableComm(const RevocableComm&) = delete;
  RevocableComm& operator=(const RevocableComm&) = delete;

 private:
  MPI_Comm comm_;
};

/// A rank died. Where ranks are to outlive that: revokes mpi_world() and every RevocableComm, so
/// that no rank waits in one for a rank that has left it because of the death (MPIX_Comm_revoke),
/// and waits for all that are left to have come here (MPIX_Comm_agree): from then on none touches
/// another one's buffers. Once until the world shrinks; from then on has_lost_rank().
void note_death();

// What MpiSession says of these, for callers that do not speak MPI.
bool mpi_has_ulfm();
void let_mpi_outlive(bool yes);
bool mpi_outlives();
bool has_lost_rank();
bool shrink_mpi_world(bool can_continue);
bool mpi_world_has_shrunk();

}  // namespace lockstep
