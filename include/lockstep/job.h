// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/rank_context.h"
#include "lockstep/watch_limits.h"

namespace lockstep {

/// A process's part in a job: finds out from mpirun, srun, torchrun's variables or their absence
/// which rank it is, connects the ranks, and opens the device. run_job() makes one for a program;
/// who does without it constructs the Job first in main():
///
///   lockstep::Job job(argc, argv);
///   if (job.rank() == 0) std::printf("%d ranks\n", job.size());
///
/// MPI is initialised only where there is more than one rank.
class Job final : public RankContext {
 public:
  /// `limits`: how long this rank waits for others that are dead, frozen or stuck. Where TCP
  /// between the ranks is blocked, rank 0 warns and no rank is watched. Throws EnvironmentError:
  /// the launcher's variables contradict each other, or no MPI connects several ranks; ConfigError:
  /// a misspelt LOCKSTEP_* variable.
  Job(int argc, char** argv, const WatchLimits& limits = {});
  ~Job() override;

  /// Opens this rank's device: "cpu", "cuda", or "auto", which is a GPU where one answers.
  /// Collective: either every rank has a device of the same kind afterwards, or all throw the same
  /// error, which names rank and host. To be called at most once, before the job is handed to a
  /// Trainer, Replica or Predictor, which otherwise open "auto". Throws EnvironmentError,
  /// OutOfMemory.
  void open_device(const std::string& device);

  /// This rank's device. Opens "auto" where none is open, and throws as open_device().
  Backend& backend() override;
  /// As backend().
  Communicator& communicator() override;
  Communicator& host_communicator() override;
  /// "mpirun (OMPI_COMM_WORLD_RANK)": the source of this process's rank.
  const std::string& source() const;
  /// The address of this rank's GPU on the PCI bus, empty where it is unknown; nothing where the
  /// ranks work on the CPU, which all of them do then.
  const std::optional<std::string>& gpu() const;
  /// What the user should know of the choice of the device; may be empty.
  const std::string& device_note() const;

 private:
  friend struct JobInternals;
  class State;
  std::unique_ptr<State> state_;
};

/// main() of a program of your own:
///
///   int main(int argc, char** argv) {
///     return lockstep::run_job(argc, argv, [](lockstep::Job& job) {
///       ...
///     });
///   }
///
/// Connects the ranks, runs `body` on each, and turns exceptions into one message (with rank, host
/// and hint) and an ExitCode. Where one rank fails and others continue, it ends the job, so that no
/// rank waits forever; `limits` are for those that freeze or get stuck. Return what it returns: one
/// of several ranks that met an error ends half a second later.
int run_job(int argc,
            char** argv,
            const std::function<void(Job&)>& body,
            const WatchLimits& limits = {});

}  // namespace lockstep
