// SPDX-License-Identifier: Apache-2.0
#include "core/host/cores.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <map>
#include <sched.h>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace lockstep {
namespace {

std::string read_line(const std::string& file) {
  std::ifstream input(file);
  std::string line;
  std::getline(input, line);
  return line;
}

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// CPUs of "200000 100000", a quota and its period; of "max 100000" there is none.
double quota_of(const std::string& text) {
  std::istringstream numbers(text);
  double quota = 0, period = 0;
  numbers >> quota >> period;
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
}

/// Of one group: version 2 has the first file, version 1 the others.
double group_quota(const std::string& folder) {
  return std::min(quota_of(read_line(folder + "/cpu.max")),
                  quota_of(read_line(folder + "/cpu.cfs_quota_us") + " " +
                           read_line(folder + "/cpu.cfs_period_us")));
}

/// The least quota of `path` and the groups around it.
double least_quota(const std::string& mount, std::string path) {
  double least = group_quota(mount + path);
  while (!path.empty()) {
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    least = std::min(least, group_quota(mount + path));
  }
  return least;
}

}  // namespace

std::vector<int> allowed_threads() {
  std::array<cpu_set_t, 64> set = {};  // the kernel refuses sets smaller than its own
  std::vector<int> threads;
  if (sched_getaffinity(0, sizeof set, set.data()) != 0) return threads;
  for (int cpu = 0; cpu < int(CPU_SETSIZE * set.size()); ++cpu)
    if (CPU_ISSET_S(std::size_t(cpu), sizeof set, set.data())) threads.push_back(cpu);
  return threads;
}

std::vector<std::vector<int>> threads_by_core(const std::vector<int>& threads,
                                              const std::string& root) {
  std::map<std::string, std::size_t> known;
  std::vector<std::vector<int>> cores;
  for (const int thread : threads) {
    const std::string siblings = read_line(
        fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, thread));
    const auto [core, is_new] =
        known.emplace(siblings.empty() ? std::to_string(thread) : siblings, cores.size());
    if (is_new) cores.emplace_back();
    cores[core->second].push_back(thread);
  }
  return cores;
}

int count_cores(const std::vector<int>& threads, const std::string& root) {
  return int(threads_by_core(threads, root).size());
}

double cgroup_cpu_quota(const std::string& root, const std::string& membership) {
  double least = kNoQuota;
  std::istringstream lines(membership);
  // "0::/path" is version 2's line, "4:cpu,cpuacct:/path" one of version 1.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") least = std::min(least, least_quota(root, path));
    if (controllers.find(",cpu,") == std::string::npos) continue;
    for (const char* const mount : {"/cpu", "/cpu,cpuacct"})
      least = std::min(least, least_quota(root + mount, path));
  }
  return least == kNoQuota ? 0 : least;
}

Cores available_cores() {
  const std::vector<int> threads = allowed_threads();
  Cores result;
  result.count = std::max(1, count_cores(threads));
  result.all_of_host = long(threads.size()) >= sysconf(_SC_NPROCESSORS_ONLN);
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream membership;
  membership << file.rdbuf();  // unlike iterators, this throws nothing where reading fails
  const double quota = cgroup_cpu_quota("/sys/fs/cgroup", membership.str());
  if (quota > 0 && quota < result.count) {
    result.count = std::max(1, int(quota));
    result.all_of_host = false;
  }
  return result;
}

}  // namespace lockstep
