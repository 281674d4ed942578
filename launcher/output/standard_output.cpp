// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/standard_output.h"

#include <csignal>
#include <iostream>
#include <poll.h>
#include <unistd.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

bool reader_has_left() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

void flush_output() {
  std::cout << std::flush;
  if (std::cout) return;
  if (reader_has_left()) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
    _exit(128 + SIGPIPE);  // whoever started us blocks the signal
  }
  throw EnvironmentError("standard output: cannot be written",
                         "free space on the disk that it is written to");
}

}  // namespace lockstep
