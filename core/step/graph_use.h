// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// How much of training a device does by replaying captured graphs; see Note [Step graphs] in
/// replica_graphs.cpp.
struct GraphUse {
  std::uint64_t graphs = 0;  ///< captured segments of steps
  std::int64_t replays = 0;  ///< of them
  std::string why_not;       ///< why nothing more is captured; empty: everything is that can be
};

}  // namespace lockstep
