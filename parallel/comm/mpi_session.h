// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace lockstep {

/// Holds MPI initialised. Idempotent: where MPI already runs, the session uses it and leaves it
/// running. Calls come from one thread (MPI_THREAD_FUNNELED). Errors of MPI_COMM_WORLD return
/// codes, which Lockstep throws as CommError, instead of ending the job.
///
/// Two of Open MPI's variables are set, each unless the environment has it already (mpirun --mca
/// puts it there): OMPI_MCA_btl_tcp_flags, so that the TCP BTL uses both directions of a connection
/// at once; and where the launcher says that all ranks share a host, OMPI_MCA_btl=^tcp,ofi, so that
/// these two BTLs, which listen on every network interface, are not opened. That concerns BTLs
/// alone: what else Open MPI opens (PMLs such as ucx, MTLs, the connections of its runtime and of
/// mpirun) may listen all the same. Open MPI reads the environment before openmpi-mca-params.conf,
/// so that a setting there counts for neither variable; one in openmpi-mca-params-override.conf
/// does. Other MPIs look at neither.
///
/// The destructor finalises only what the constructor initialised, and not while an exception is in
/// flight: peers may never reach their side of it, and the launcher ends the job when this process
/// exits; where another session follows instead, that one does. After shrink() the ranks wait for
/// each other instead, and exit. No Communicator may be used afterwards.
class MpiSession {
 public:
  /// Throws EnvironmentError: MPI is already finalised, refuses to start, or is not built in.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Whether this program was built with MPI. Without it there is one rank.
  static bool built_in();
  /// Whether it is Open MPI, or made of it, whose mpirun lockstep knows to start; MPICH is not.
  static bool is_open_mpi();
  /// What the constructor sets in the environment, for callers that start threads before it: these
  /// may read the environment meanwhile.
  static void set_variables();
  /// Whether MPI can be called now: initialised, not finalised.
  static bool running();
  /// Whether it says of itself that it reads and writes the memory of GPUs; no where it says
  /// nothing.
  static bool reaches_gpus();

  /// Whether this MPI has ULFM (User-Level Failure Mitigation, Bland et al. 2013; Open MPI from 5.0
  /// on), with which ranks outlive the death of another one (mpirun --with-ft ulfm).
  static bool has_ulfm();
  /// `yes`: from now on a message that fails because a rank died, which throws CommError as ever,
  /// first lets those of all other ranks fail, and waits until they have come to that. Otherwise,
  /// as before, after shrink() and without ULFM, lost_rank() stays false.
  static void let_ranks_outlive(bool yes);
  static bool ranks_outlive();  ///< as let_ranks_outlive() has said; in the thread that calls MPI
  /// The same for a death that this rank has heard of by other means than a failed message.
  static void note_lost_rank();
  /// That has happened. Until shrink() no other message arrives.
  static bool lost_rank();
  /// make_mpi_communicator() then is of the ranks that are left, in their order. Collective over
  /// these (MPIX_Comm_shrink); what was made before is to be destroyed. Returns whether all of them
  /// `can_continue` (MPIX_Comm_agree). Throws CommError.
  static bool shrink(bool can_continue);
  struct Place {
    int rank = 0, size = 1;
  };
  /// What this process is since shrink(), whatever its launcher says; nothing before.
  static std::optional<Place> place_after_shrink();

 private:
  [[maybe_unused]] bool owner_ = false;
  [[maybe_unused]] int exceptions_ = 0;  // in flight when the session began
};

}  // namespace lockstep
