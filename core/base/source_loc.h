// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// The place in a user's program that asked for something: an operator, a parameter, a check.
/// Used instead of `std::source_location`, which clang 14 lacks. `file` is as the compiler was
/// given it; in Lockstep's own sources it starts at the source folder (LockstepOptions.cmake).
struct SourceLoc {
  const char* file = "";
  int line = 0;

  static SourceLoc current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace lockstep
