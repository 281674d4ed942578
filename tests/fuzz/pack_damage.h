// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::fuzz {

/// One damage of a packed file, as the inputs of the target pack_damage have it after their first
/// byte, which chooses the file. `at` is a place, of 65,536 between its first and its last byte.
struct PackDamage {
  enum Kind : std::uint8_t {
    flip,      ///< the bit value % 8
    set,       ///< value
    fill,      ///< `count` bytes with value: a sector that was never written
    exchange,  ///< `count` bytes with those that begin `count` later
    copy,      ///< `count` bytes from the file's beginning + 256 * value: a sector of another place
    stuck,     ///< the bit value % 8 is 1 in each eighth of `count` bytes: a line of a bus
    cut,       ///< the file ends here
    insert,    ///< `count` bytes with value
    remove,    ///< `count` bytes
    top_bits,  ///< the highest bits of three bytes, four apart, which sums of version 2 may miss
    kinds
  };
  std::uint8_t kind;
  std::uint8_t value;
  std::uint16_t at;
  std::uint16_t count;
};
static_assert(sizeof(PackDamage) == 6);

}  // namespace lockstep::fuzz
