// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Runs a program under ptrace(2), x86-64 Linux alone, and interferes with its system calls.
namespace lockstep::testing {

/// A system call that a thread of the program is about to make.
struct SystemCall {
  std::int64_t number = -1;
  std::array<std::uint64_t, 6> arguments{};
  /// What it works on: its path argument made absolute, or what its descriptor stands for.
  std::string path;
  bool on_descriptor = false;  ///< `path` comes from a descriptor
};

struct Interference {
  enum class Kind { none, kill, fail, shorten };
  Kind kind = Kind::none;
  int error = 0;  ///< fail: the call is not made, and returns this
};

struct Ended {
  bool killed = false;  ///< by Interference::Kind::kill
  int signal = 0;       ///< of another origin; 0: none
  int exit_code = 0;
  std::string out, err;
};

/// Empty where programs may be traced here; otherwise why they may not.
std::string why_no_tracing();

/// `decide` is called before each system call of every thread; shorten halves the count of bytes
/// of a write.
Ended run_traced(const std::vector<std::string>& command,
                 const std::function<Interference(const SystemCall&)>& decide);

}  // namespace lockstep::testing
