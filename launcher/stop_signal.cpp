// SPDX-License-Identifier: Apache-2.0
#include "launcher/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace lockstep {
namespace {

volatile std::sig_atomic_t received = 0;

void receive(int signal) { received = signal; }

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = receive;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    action.sa_flags = SA_RESTART | (signal == SIGINT ? int(SA_RESETHAND) : 0);
    sigaction(signal, &action, nullptr);
  }
}

bool stop_asked() { return received != 0; }

const char* stop_signal_name() {
  switch (received) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    default:
      return "";
  }
}

}  // namespace lockstep
