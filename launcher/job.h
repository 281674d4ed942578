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
  /// Throws EnvironmentError: the launcher's variables contradict each other, or no MPI connects
  /// several ranks; ConfigError: a misspelt LOCKSTEP_* variable.
  Job(int argc, char** argv);
  ~Job() override;

  Backend& backend() override;
  Communicator& communicator() override;
  /// "mpirun (OMPI_COMM_WORLD_RANK)": the source that told the rank.
  const std::string& source() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
