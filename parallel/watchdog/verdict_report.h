// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "parallel/watchdog/failure_detector.h"
#include "parallel/watchdog/fault_record.h"
#include "parallel/watchdog/heartbeat_node.h"
#include "parallel/watchdog/heartbeat_transport.h"
#include "parallel/watchdog/stranger_watch.h"

namespace lockstep::watch {

// What a rank's watchdog does with its own verdict.

/// Whether this rank puts it on the screen: rank 0 does of all others. Where it is itself gone, the
/// lowest of its children does: of another host where rank 0's may be gone as a whole.
bool reports_verdict(const Verdict& verdict, const Peers& peers);

/// With who else is connected to ranks, where such a connection may have caused it.
FaultRecord record_of(const Verdict& verdict,
                      const Peers& peers,
                      const HeartbeatNode& node,
                      const StrangerWatch& strangers);

/// How long this rank waits before it ends: until all ranks know that come to the same verdict by
/// themselves, as do the children of the faulting rank and rank 0. The launcher ends all, and wakes
/// a frozen one, as soon as the first has ended.
std::chrono::duration<double> pause_before_end(const Verdict& verdict,
                                               const Peers& peers,
                                               const HeartbeatNode& node);

}  // namespace lockstep::watch
