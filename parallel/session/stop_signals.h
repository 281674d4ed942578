// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace lockstep {

/// From here on SIGTERM, SIGUSR1, SIGHUP (unless it was ignored: nohup) and the first SIGINT only
/// set a flag, which stop_requested() tells. A second SIGINT ends the process at once; more of the
/// others change nothing.
void catch_stop_signals();

/// Whether such a signal has come. For TrainOptions::stop.
bool stop_requested();
/// "SIGTERM"; empty where none has come to this process.
const char* stop_signal_name();

/// From here on this process is killed when its parent dies; at once where it has.
void die_with(pid_t parent);

}  // namespace lockstep
