// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes of this process that are in memory; 0 where that is unknown.
struct ResidentMemory {
  std::uint64_t own = 0;    ///< heap, stacks, buffers
  std::uint64_t files = 0;  ///< pages of the program, its libraries and mapped files, shared ones
  std::uint64_t total() const { return own + files; }
};
ResidentMemory resident_memory();

/// The most that total() has been since the program began or forget_peak_resident().
std::uint64_t peak_resident_bytes();
/// False where the kernel does not allow it.
bool forget_peak_resident();

/// Gives unused memory of the heap back to the system. Takes milliseconds.
void return_free_memory();

}  // namespace lockstep
