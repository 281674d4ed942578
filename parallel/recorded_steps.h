// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// How much of training a device does by replaying what it has recorded; see Note [Recorded steps]
/// in replica_pieces.cpp.
struct RecordedSteps {
  std::uint64_t pieces = 0;   ///< of steps that are recorded
  std::int64_t replayed = 0;  ///< times that one was
  std::string why_not;        ///< why nothing more is recorded; empty: everything is that can be
};

}  // namespace lockstep
