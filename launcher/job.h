// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "parallel/rank_context.h"

namespace lockstep {

/// A process's part in a job: finds out from mpirun, srun, torchrun-style variables or their
/// absence which rank it is, opens the device and connects the ranks. Construct it first in main().
/// MPI is initialised only where there is more than one rank.
class Job final : public RankContext {
 public:
  /// `device`: "auto", "cpu" or "cuda"; auto takes a GPU where one answers.
  /// Throws EnvironmentError: the launcher's variables contradict each other, no MPI connects
  /// several ranks, or there is no such device; ConfigError: a misspelt LOCKSTEP_* variable.
  Job(int argc, char** argv, const std::string& device = "auto");
  ~Job() override;

  Backend& backend() override;
  Communicator& communicator() override;
  /// "mpirun (OMPI_COMM_WORLD_RANK)": the source that told the rank.
  const std::string& source() const;
  /// What the user should know of the choice of the device; may be empty.
  const std::string& device_note() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
