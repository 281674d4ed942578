// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/supervisor_signals.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

#include "core/base/check.h"

namespace lockstep {

SupervisorSignals::SupervisorSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD}) sigaddset(&set, signal);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  descriptor_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  LOCKSTEP_CHECK(
      descriptor_ >= 0, EnvironmentError, "signalfd: {}", std::generic_category().message(errno));
  sigprocmask(SIG_BLOCK, &set, &before_);
}

SupervisorSignals::~SupervisorSignals() {
  close(descriptor_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void SupervisorSignals::read() {
  signalfd_siginfo info{};
  while (::read(descriptor_, &info, sizeof info) == ssize_t(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    requested_ = true;
    if (info.ssi_signo == SIGINT) ++interrupts_;
  }
}

void SupervisorSignals::wait(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!requested_) {
    const std::chrono::duration<double, std::milli> left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return;
    pollfd waited{descriptor_, POLLIN, 0};
    poll(&waited, 1, int(std::min(left.count() + 1, 1e6)));
    read();
  }
}

}  // namespace lockstep
