// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/gpu_binding.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/types.h>

#include "core/host/cores.h"
#include "core/host/cpu_list.h"

namespace lockstep {
namespace {

std::vector<int> read_list(const std::string& file) {
  std::ifstream input(file);
  std::string line;
  std::getline(input, line);
  return parse_cpu_list(line);
}

/// False where the kernel refuses, as where none of `threads` is in this process's cpuset.
bool bind_thread(pid_t thread, const std::vector<int>& threads) {
  std::array<cpu_set_t, 64> set = {};
  for (const int cpu : threads) CPU_SET_S(std::size_t(cpu), sizeof set, set.data());
  return sched_setaffinity(thread, sizeof set, set.data()) == 0;
}

}  // namespace

std::vector<int> threads_near_gpu(const std::vector<int>& mask,
                                  int cores,
                                  const std::vector<int>& online,
                                  const std::vector<int>& local,
                                  bool own_launch) {
  const bool free = std::ranges::includes(mask, online);
  const bool bound_by_us = own_launch && cores == 1;
  if (!free && !bound_by_us) return {};
  const std::vector<int>& wanted = local.empty() ? online : local;
  return wanted == mask ? std::vector<int>() : wanted;
}

std::string bind_to_gpu(const std::string& address, bool own_launch, const std::string& root) {
  std::string device = address;
  std::ranges::transform(
      device, device.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  const std::vector<int> mask = allowed_threads();
  const std::vector<int> wanted =
      threads_near_gpu(mask,
                       count_cores(mask, root),
                       read_list(root + "/sys/devices/system/cpu/online"),
                       read_list(root + "/sys/bus/pci/devices/" + device + "/local_cpulist"),
                       own_launch);
  if (wanted.empty() || !bind_thread(0, wanted)) return {};
  // MPI's threads, which are there already, were bound as this one was.
  std::error_code none;
  for (std::filesystem::directory_iterator task("/proc/self/task", none), end; !none && task != end;
       task.increment(none)) {
    const std::string name = task->path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (thread > 0) bind_thread(thread, wanted);
  }
  return format_cpu_list(allowed_threads());
}

}  // namespace lockstep
