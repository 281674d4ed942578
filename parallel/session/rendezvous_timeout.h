// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/env.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {

/// What the launcher says of the job as a whole. Empty or 0: it does not say.
struct JobName {
  std::string id;       ///< differs between jobs that run at the same time on one host
  int ranks = 0;        ///< of the job
  int local_ranks = 0;  ///< of the job on this host
};
JobName job_name(const RankDiscovery& discovery, const VariableMap& variables);

/// "rank 2 has not joined the job ..., of this host's 3 ranks 0, 1 have": what a host can tell
/// where `present[r]` says whether rank r runs on it. `first_absent` is set to the first rank that
/// is missing, -1 where none is known to.
std::string absence_text(const JobName& job, const std::vector<bool>& present, int& first_absent);

/// Bounds the time in which the ranks of a job come together: MPI waits for ever for one that never
/// comes. From the constructor on, the other ranks of this host can see that this one has come
/// (by an abstract socket, which ends with the process). Where the destructor has not run after
/// `limit_s`, a thread reports the absent ranks and ends the process with exit code 5; where the
/// launcher has gone meanwhile, with 1.
class RendezvousTimeout {
 public:
  /// `limit_s` 0: there is no limit.
  RendezvousTimeout(const RankDiscovery& discovery, const VariableMap& variables, double limit_s);
  ~RendezvousTimeout();
  RendezvousTimeout(const RendezvousTimeout&) = delete;
  RendezvousTimeout& operator=(const RendezvousTimeout&) = delete;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
