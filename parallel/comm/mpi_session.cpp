// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi_session.h"

#include <cstdlib>
#include <exception>
#include <mpi.h>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "parallel/comm/dead_rank_error.h"
#include "parallel/comm/mpi_world.h"

#if __has_include(<mpi-ext.h>)  // Open MPI's, which wants to come after mpi.h
#include <mpi-ext.h>
#endif

namespace lockstep {

namespace {

// Open MPI's TCP fetches large messages piece by piece, and each request for a piece queues after
// the data that goes the other way on the same connection: two ranks that send to each other then
// take turns, and an exchange takes up to twice as long. Sent without being asked for, both
// directions are full.
constexpr const char* kTcpVariable = "OMPI_MCA_btl_tcp_flags";
constexpr const char* kTcpSends = "send,inplace";

// Ranks of one host talk through shared memory. Open MPI's TCP transport would carry nothing, and
// still listen on every network interface: one byte from a stranger ends such a job (4.1.4). Its
// libfabric transport, taken where TCP is absent, listens as well.
constexpr const char* kTransportVariable = "OMPI_MCA_btl";
constexpr const char* kNoNetwork = "^tcp,ofi";

/// The session that initialised MPI is gone and has not finalised it: the next one is to.
bool left_running = false;

/// Whether the launcher started all ranks on this host.
bool on_one_host() {
  const auto value = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string_view(text ? text : "");
  };
  const std::string_view ranks = value("OMPI_COMM_WORLD_SIZE");
  if (!ranks.empty()) return ranks == value("OMPI_COMM_WORLD_LOCAL_SIZE");
  return value("SLURM_STEP_NUM_NODES") == "1";
}

}  // namespace

void throw_mpi_error(int code, const char* call) {
  if (tells_of_a_death(code)) note_death();
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  const std::string_view source(call);
  const std::string failed = fmt::format("{}: {}", source.substr(0, source.find('(')), text);
  if (tells_of_a_death(code))
    throw DeadRankError(
        "another rank has died: " + failed,
        "look for the first error in the run's logs, and at what the launcher says");
  throw CommError(failed,
                  "another rank may have ended; look for the first error in the run's logs");
}

bool MpiSession::built_in() { return true; }

bool MpiSession::is_open_mpi() {
#ifdef OPEN_MPI
  return true;
#else
  return false;
#endif
}

void MpiSession::set_variables() {
  constexpr int kKeepWhatTheUserChose = 0;
  setenv(kTcpVariable, kTcpSends, kKeepWhatTheUserChose);
  if (on_one_host()) setenv(kTransportVariable, kNoNetwork, kKeepWhatTheUserChose);
}

bool MpiSession::running() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised && !finalised;
}

bool MpiSession::reaches_gpus() {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

bool MpiSession::has_ulfm() { return mpi_has_ulfm(); }
void MpiSession::let_ranks_outlive(bool yes) { let_mpi_outlive(yes); }
bool MpiSession::ranks_outlive() { return mpi_outlives(); }
void MpiSession::note_lost_rank() { note_death(); }
bool MpiSession::lost_rank() { return has_lost_rank(); }
bool MpiSession::shrink(bool can_continue) { return shrink_mpi_world(can_continue); }

std::optional<MpiSession::Place> MpiSession::place_after_shrink() {
  if (!mpi_world_has_shrunk()) return std::nullopt;
  Place place;
  LOCKSTEP_MPI_TRY(MPI_Comm_rank(mpi_world(), &place.rank));
  LOCKSTEP_MPI_TRY(MPI_Comm_size(mpi_world(), &place.size));
  return place;
}

MpiSession::MpiSession() : exceptions_(std::uncaught_exceptions()) {
  int finalised = 0;
  MPI_Finalized(&finalised);
  LOCKSTEP_CHECK(!finalised,
                 EnvironmentError,
                 "MPI is already finalised and cannot start twice in one process: keep one "
                 "MpiSession for the life of the program");
  int provided = MPI_THREAD_SINGLE;
  if (!running()) {
    set_variables();
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    LOCKSTEP_CHECK(
        code == MPI_SUCCESS, EnvironmentError, "MPI_Init_thread failed with code {}", code);
    owner_ = true;
  }
  owner_ = owner_ || std::exchange(left_running, false);
  MPI_Query_thread(&provided);
  LOCKSTEP_CHECK(provided >= MPI_THREAD_FUNNELED,
                 EnvironmentError,
                 "MPI runs without threads: it must be initialised with MPI_THREAD_FUNNELED");
  LOCKSTEP_MPI_TRY(MPI_Comm_set_errhandler(mpi_world(), MPI_ERRORS_RETURN));
}

MpiSession::~MpiSession() {
  if (!owner_ || !running()) return;
  left_running = std::uncaught_exceptions() > exceptions_;
  if (left_running) return;
  // Open MPI 5.0.7 sometimes waits in MPI_Finalize for the rank that died.
  if (mpi_world_has_shrunk())
    MPI_Barrier(mpi_world());
  else
    MPI_Finalize();
}

}  // namespace lockstep
