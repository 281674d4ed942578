// SPDX-License-Identifier: Apache-2.0
#include "launcher/job.h"

#include <optional>

#include "core/base/env.h"
#include "core/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "launcher/rank_discovery.h"
#include "parallel/mpi_communicator.h"
#include "parallel/mpi_session.h"
#include "parallel/self_communicator.h"

namespace lockstep {

class Job::State {
 public:
  RankDiscovery discovery;
  std::optional<MpiSession> mpi;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Backend> backend;
};

Job::Job(int /*argc*/, char** /*argv*/) : state_(std::make_unique<State>()) {
  env();  // names misspelt LOCKSTEP_* variables
  state_->discovery = discover_rank(process_variables());
  if (state_->discovery.size == 1) {
    state_->communicator = std::make_unique<SelfCommunicator>();
  } else {
    state_->mpi.emplace();
    state_->communicator = make_mpi_communicator(*state_->mpi);
    check_against_mpi(
        state_->discovery, state_->communicator->rank(), state_->communicator->size());
  }
  state_->backend = make_cpu_backend();
}

Job::~Job() = default;

Backend& Job::backend() { return *state_->backend; }
Communicator& Job::communicator() { return *state_->communicator; }
const std::string& Job::source() const { return state_->discovery.source; }

}  // namespace lockstep
