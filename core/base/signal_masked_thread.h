// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <pthread.h>
#include <thread>

namespace lockstep {

/// A thread that no signal of the process is delivered to. Throws std::system_error.
template <typename Body>
std::thread start_signal_masked_thread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    std::thread thread(body);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace lockstep
