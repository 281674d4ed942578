// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes of this process that are in memory now, its libraries included; 0 where that is unknown.
std::uint64_t resident_bytes();
/// The most that were at once since the program began; 0 where that is unknown.
std::uint64_t peak_resident_bytes();

}  // namespace lockstep
