// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/stop_signals.h"

#include <csignal>
#include <initializer_list>
#include <sys/prctl.h>
#include <unistd.h>

namespace lockstep {
namespace {

volatile std::sig_atomic_t received = 0;

void receive(int signal) { received = signal; }

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = receive;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;  // nohup
    action.sa_flags = SA_RESTART | (signal == SIGINT ? int(SA_RESETHAND) : 0);
    sigaction(signal, &action, nullptr);
  }
}

bool stop_requested() { return received != 0; }

const char* stop_signal_name() {
  switch (received) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    default:
      return "";
  }
}

void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (parent == 1 || getppid() != parent) std::raise(SIGKILL);
}

}  // namespace lockstep
