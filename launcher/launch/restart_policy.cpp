// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/restart_policy.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "lockstep/error.h"

namespace lockstep {
namespace {

bool would_happen_again(const Attempt& attempt) {
  switch (attempt.exit_code) {
    case int(ExitCode::usage):
    case int(ExitCode::loss_not_finite):
      return true;
    case int(ExitCode::error):
    case int(ExitCode::environment):
    case int(ExitCode::out_of_memory):
      return attempt.first && !attempt.trained;
    default:
      return false;
  }
}

}  // namespace

bool was_stopped(const Attempt& attempt) {
  if (attempt.exit_code == int(ExitCode::requeue)) return true;
  if (attempt.exit_code == 0) return false;
  if (attempt.stop_requested) return attempt.out_of_grace || attempt.exit_code > 128;
  // Ranks on other hosts that are starting do not ignore SIGUSR1 yet.
  return attempt.moves && (attempt.out_of_grace || attempt.exit_code == 128 + SIGUSR1);
}

RestartPolicy::Verdict RestartPolicy::next(const Attempt& attempt) {
  if (attempt.exit_code == 0) return Verdict::done;
  if (attempt.progress) without_progress_ = 0;
  if (was_stopped(attempt))
    return attempt.moves && !attempt.stop_requested ? Verdict::move : Verdict::stopped;
  if (attempt.stop_requested || would_happen_again(attempt)) return Verdict::failed;
  if (without_progress_ >= max_restarts_) return Verdict::exhausted;
  ++without_progress_;
  ++restarts_;
  return Verdict::restart;
}

double RestartPolicy::pause() const {
  constexpr double kLongestSeconds = 300;
  if (without_progress_ <= 1) return 0;
  return std::min(std::max(kLongestSeconds, backoff_s_),
                  backoff_s_ * std::exp2(without_progress_ - 2));
}

}  // namespace lockstep
