// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi_world.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/check.h"

#if __has_include(<mpi-ext.h>)  // Open MPI's, which wants to come after mpi.h
#include <mpi-ext.h>
#endif

// Open MPI says so where it was built with ULFM.
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
#define LOCKSTEP_HAS_ULFM 1
#else
#define LOCKSTEP_HAS_ULFM 0
#endif

namespace lockstep {
namespace {

// As all of MPI, of one thread.
struct World {
  MPI_Comm ranks = MPI_COMM_WORLD;
  bool outlives = false, lost_rank = false, shrunk = false;
  std::optional<int> lowest_on_host;
  std::vector<MPI_Comm> revocable;
};

World& world() {
  static World one;
  return one;
}

}  // namespace

MPI_Comm mpi_world() { return world().ranks; }

int lowest_rank_on_host() {
  std::optional<int>& known = world().lowest_on_host;
  if (known) return *known;
  MPI_Comm host = MPI_COMM_NULL;
  int lowest = 0;
  LOCKSTEP_MPI_TRY(MPI_Comm_rank(mpi_world(), &lowest));
  LOCKSTEP_MPI_TRY(
      MPI_Comm_split_type(mpi_world(), MPI_COMM_TYPE_SHARED, lowest, MPI_INFO_NULL, &host));
  LOCKSTEP_MPI_TRY(MPI_Bcast(&lowest, 1, MPI_INT, 0, host));
  LOCKSTEP_MPI_TRY(MPI_Comm_free(&host));
  known = lowest;
  return lowest;
}

RevocableComm::RevocableComm(MPI_Comm comm) : comm_(comm) { world().revocable.push_back(comm); }

RevocableComm::~RevocableComm() {  // another one may be of the same communicator
  std::vector<MPI_Comm>& all = world().revocable;
  if (const auto own = std::ranges::find(all, comm_); own != all.end()) all.erase(own);
}

void let_mpi_outlive(bool yes) { world().outlives = yes; }
bool mpi_outlives() { return world().outlives; }
bool has_lost_rank() { return world().lost_rank; }

#if LOCKSTEP_HAS_ULFM

bool mpi_has_ulfm() { return true; }

bool tells_of_a_death(int code) {
  int kind = MPI_SUCCESS;
  if (code == MPI_SUCCESS || MPI_Error_class(code, &kind) != MPI_SUCCESS) return false;
  return kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING ||
         kind == MPIX_ERR_REVOKED;
}

void note_death() {
  World& all = world();
  if (!all.outlives || std::exchange(all.lost_rank, true)) return;
  for (MPI_Comm comm : all.revocable) MPIX_Comm_revoke(comm);
  MPIX_Comm_revoke(all.ranks);
  int flag = 1;
  MPIX_Comm_agree(all.ranks, &flag);  // says which ranks died, as an error
}

bool shrink_mpi_world(bool can_continue) {
  MPI_Comm left = MPI_COMM_NULL;
  LOCKSTEP_MPI_TRY(MPIX_Comm_shrink(mpi_world(), &left));
  world().ranks = left;
  world().shrunk = true;
  world().lost_rank = world().outlives = false;
  world().lowest_on_host.reset();
  LOCKSTEP_MPI_TRY(MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN));
  int all_can = int(can_continue);
  LOCKSTEP_MPI_TRY(MPIX_Comm_agree(left, &all_can));
  return all_can != 0;
}

#else

bool mpi_has_ulfm() { return false; }
bool tells_of_a_death(int /*code*/) { return false; }
void note_death() {}
bool shrink_mpi_world(bool /*can_continue*/) {
  throw CommError("this MPI has no ULFM, and cannot do without a rank that died");
}

#endif

bool mpi_world_has_shrunk() { return world().shrunk; }

}  // namespace lockstep
