// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace lockstep {

/// What `ulimit` allows a process, in its units; the largest number: everything.
struct ProcessLimits {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t open_files = kNone;
  std::uint64_t address_space = kNone;  ///< bytes
  std::uint64_t file_bytes = kNone;
};

/// Throws EnvironmentError where mpirun could not start `ranks` ranks on this host within `limits`,
/// naming the limit and the ulimit that lifts it: Open MPI hangs, or ends without naming it.
void check_limits(const ProcessLimits& limits, int ranks);

/// The same of this process, whose soft limit of open files is raised as far as `ranks` need it and
/// the hard one allows.
void check_limits(int ranks);

}  // namespace lockstep
