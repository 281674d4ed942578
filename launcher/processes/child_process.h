// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/env.h"

namespace lockstep {

/// Both ends are closed with it, and in programs that are started.
struct Pipe {
  int read = -1, write = -1;

  /// Throws EnvironmentError: the system has no descriptors left.
  Pipe();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read();
  void close_write();
};

/// Starts `command`, whose first word is a path, in a process group of its own, with `variables`
/// in addition to those of this process. Its standard input is empty, its standard output `out`
/// (-1: that of this process), its standard error `err`, its signal mask `mask`. It ignores
/// SIGUSR1, so that one that comes too early does not end it, and gets SIGTERM when this process
/// dies. Throws EnvironmentError: it cannot be started.
pid_t spawn(const std::vector<std::string>& command,
            const VariableMap& variables,
            const sigset_t& mask,
            int out,
            int err);

}  // namespace lockstep
