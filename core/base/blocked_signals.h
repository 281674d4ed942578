// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <initializer_list>
#include <pthread.h>

namespace lockstep {

/// While it lives, signals from outside (kill, timers, a terminal) wait for the calling thread:
/// they come when it ends. Those that an instruction or abort() of this thread raises come at once.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t from_outside;
    sigfillset(&from_outside);
    for (const int own : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
      sigdelset(&from_outside, own);
    pthread_sigmask(SIG_BLOCK, &from_outside, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace lockstep
