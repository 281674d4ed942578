// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace lockstep {

/// Seconds for which the calling thread has been ready to run while other threads had its cores,
/// since it began: the run-queue wait of /proc/thread-self/schedstat (Linux,
/// Documentation/scheduler/sched-stats.rst). Nothing where the kernel does not count it.
std::optional<double> run_queue_wait();

}  // namespace lockstep
