// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// Note [Cores without hwloc]
//
// Every `lockstep train` counts cores before it starts. For that hwloc would load a topology: 2 ms
// of CPU time with 2 hardware threads, 16 ms with a generated /sys of 256, and with it the
// libraries of hwloc's plugins (X11, OpenCL). It knows no CPU quotas, and this folder is as long
// with it.
namespace lockstep {

/// The CPU cores this process may use.
struct Cores {
  int count = 1;            ///< whole cores: hardware threads of one core count once
  bool all_of_host = true;  ///< neither mask nor quota hides any
};

/// Reads the affinity mask, the topology and the cgroup's CPU quota (versions 1 and 2), at least 1.
Cores available_cores();

/// Hardware threads that this thread's affinity mask allows, ascending.
std::vector<int> allowed_threads();

/// `threads` by the cores that they belong to, by the topology below `root` + /sys; cores in the
/// order of their first threads.
std::vector<std::vector<int>> threads_by_core(const std::vector<int>& threads,
                                              const std::string& root = {});
/// How many cores those are.
int count_cores(const std::vector<int>& threads, const std::string& root = {});

/// CPUs that a quota allows: the least of "cpu.max" ("200000 100000", "max 100000") from the
/// cgroup's folder up to `root`, and version 1's cpu.cfs_quota_us; 0 where there is none.
/// `membership` is the text of /proc/self/cgroup.
double cgroup_cpu_quota(const std::string& root, const std::string& membership);

}  // namespace lockstep
