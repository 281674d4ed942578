// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/exec/communicator.h"
#include "core/exec/position.h"
#include "lockstep/rank_context.h"

namespace lockstep {

/// While it lives the host waits for the device. Where collectives are stream-ordered it thereby
/// waits for other ranks, and `context`'s position says so: else the watchdog would take this rank
/// for the one that stalls.
class DeviceWait {
 public:
  explicit DeviceWait(RankContext& context) {
    if (context.size() > 1 && context.communicator().in_stream_order())
      scope_.emplace(context.position(), CollectiveNote{.name = "exchange", .is_entered = false});
  }

 private:
  std::optional<CollectiveScope> scope_;
};

}  // namespace lockstep
