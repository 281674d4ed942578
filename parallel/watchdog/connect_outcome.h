// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "parallel/watchdog/heartbeat_tree.h"

namespace lockstep {

/// What a rank met while its watchdog connected. Sent between ranks as it is.
struct ConnectOutcome {
  char problem[512] = {};    ///< empty: none
  std::uint8_t listens = 1;  ///< for its children, or has none
};

/// Why no rank is watched: of the first rank that cannot listen, else of those that cannot reach
/// the first such parent; eight ranks are named. `outcomes` of all ranks, one with a problem.
std::string format_blindness(std::span<const ConnectOutcome> outcomes,
                             const watch::HeartbeatTree& tree);

}  // namespace lockstep
