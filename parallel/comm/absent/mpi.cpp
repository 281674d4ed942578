// SPDX-License-Identifier: Apache-2.0
// In place of mpi_session.cpp, mpi_world.cpp and mpi_communicator.cpp where LOCKSTEP_MPI is off:
// one rank runs as ever, and several get an error that says why.
#include "lockstep/error.h"
#include "parallel/comm/mpi_communicator.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse() {
  throw EnvironmentError(
      "several ranks need MPI, and this program was built without it",
      "start it alone, or build with -DLOCKSTEP_MPI=ON and, where Open MPI is in "
      "a folder of its own, with that in CMAKE_PREFIX_PATH");
}

}  // namespace

MpiSession::MpiSession() { refuse(); }
MpiSession::~MpiSession() = default;
void MpiSession::set_variables() {}
bool MpiSession::built_in() { return false; }
bool MpiSession::is_open_mpi() { return false; }
bool MpiSession::running() { return false; }
bool MpiSession::reaches_gpus() { return false; }
bool MpiSession::has_ulfm() { return false; }
void MpiSession::let_ranks_outlive(bool) {}
bool MpiSession::ranks_outlive() { return false; }
void MpiSession::note_lost_rank() {}
bool MpiSession::lost_rank() { return false; }
bool MpiSession::shrink(bool) { refuse(); }
std::optional<MpiSession::Place> MpiSession::place_after_shrink() { return std::nullopt; }

std::unique_ptr<Communicator> make_mpi_communicator(const MpiSession&, MpiExchange) { refuse(); }

}  // namespace lockstep
