// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// What Linux could still give this process. Bytes; nothing: the kernel does not say, or there is
/// no such limit.
struct HostMemory {
  /// Left of the host's memory without swapping (MemAvailable), and of the memory limits of this
  /// process's control group and of all groups around it, whose clean file pages count as free:
  /// the least of them.
  std::optional<std::uint64_t> free;
  /// Of the host, or of the smallest of those groups; 0: unknown.
  std::uint64_t total = 0;
  /// The innermost group that has a limit, "/job_7/step_0", whose processes share it; empty: none.
  std::string group;
  /// The number of its folder's inode: containers see groups of their own under one path, "/".
  std::uint64_t group_id = 0;
  /// Left of this process's own limits of address space (ulimit -v) and of data (ulimit -d), the
  /// lesser.
  std::optional<std::uint64_t> own;

  /// The least of `free` and `own`.
  std::optional<std::uint64_t> left() const;
};

/// Reads /proc/meminfo, /proc/self/{cgroup,limits,status} and /sys/fs/cgroup (versions 1 and 2)
/// below `root`; empty: the machine itself.
HostMemory read_host_memory(const std::string& root = {});

}  // namespace lockstep
