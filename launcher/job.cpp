// SPDX-License-Identifier: Apache-2.0
#include "launcher/job.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "launcher/device_choice.h"
#include "launcher/host_facts.h"
#include "launcher/rank_discovery.h"
#include "parallel/mpi_communicator.h"
#include "parallel/mpi_session.h"
#include "parallel/self_communicator.h"
#include "parallel/staged_communicator.h"

namespace lockstep {

class Job::State {
 public:
  RankDiscovery discovery;
  std::optional<MpiSession> mpi;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> staged;  // where MPI does not reach the device's memory
  std::string device_note;
};

namespace {

/// Ranks of this host and this one's number among them, as launchers say or as rank order says.
struct LocalRanks {
  int rank = 0, count = 1;
};

LocalRanks local_ranks(Communicator& communicator, const std::string& host) {
  const std::size_t capacity = 256;
  std::vector<char> names(capacity * std::size_t(communicator.size()));
  std::vector<char> own(capacity);
  std::copy_n(host.begin(), std::min(host.size(), capacity - 1), own.begin());
  communicator.all_gather(own.data(), names.data(), capacity);
  LocalRanks local{0, 0};
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (!std::equal(own.begin(), own.end(), names.begin() + std::ptrdiff_t(capacity) * rank))
      continue;
    if (rank < communicator.rank()) ++local.rank;
    ++local.count;
  }
  return local;
}

}  // namespace

Job::Job(int /*argc*/, char** /*argv*/, const std::string& device)
    : state_(std::make_unique<State>()) {
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
  // Every rank of a host takes part, whatever it finds: its GPUs are dealt out by rank order.
  const LocalRanks local = local_ranks(*state_->communicator, host_name());
  const DeviceChoice choice = device == "cpu"
                                  ? DeviceChoice{}
                                  : choose_device(device, probe_cuda(), local.rank, local.count);
  state_->device_note = choice.note;
  if (!choice.cuda) {
    state_->backend = make_cpu_backend();
    return;
  }
  state_->backend = make_cuda_backend(choice.ordinal);
  if (state_->communicator->size() > 1)
    state_->staged = make_staged_communicator(*state_->communicator, *state_->backend);
}

Job::~Job() = default;

Backend& Job::backend() { return *state_->backend; }
Communicator& Job::communicator() {
  return state_->staged ? *state_->staged : *state_->communicator;
}
const std::string& Job::source() const { return state_->discovery.source; }
const std::string& Job::device_note() const { return state_->device_note; }

}  // namespace lockstep
