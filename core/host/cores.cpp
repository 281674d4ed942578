// SPDX-License-Identifier: Apache-2.0
#include "core/host/cores.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <sched.h>
#include <set>
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

double quota_of(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : 0;
}

double read_version_2(const std::string& folder) {
  std::istringstream line(read_line(folder + "/cpu.max"));
  double quota = 0, period = 0;
  return line >> quota >> period ? quota_of(quota, period) : 0;
}

double read_version_1(const std::string& folder) {
  std::istringstream quota_text(read_line(folder + "/cpu.cfs_quota_us"));
  std::istringstream period_text(read_line(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  return quota_text >> quota && period_text >> period ? quota_of(quota, period) : 0;
}

/// The least quota of `path` and the groups around it.
template <typename Read>
double least_quota(const std::string& mount, std::string path, Read read) {
  double least = 0;
  while (true) {
    const double quota = read(mount + path);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    if (path.empty()) return least;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

std::vector<int> allowed_threads() {
  // The kernel refuses sets smaller than its own.
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(std::size_t(capacity));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(std::size_t(capacity));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    std::vector<int> threads;
    for (int cpu = 0; known && cpu < capacity; ++cpu)
      if (CPU_ISSET_S(std::size_t(cpu), bytes, set)) threads.push_back(cpu);
    CPU_FREE(set);
    if (known) return threads;
  }
  return {};
}

int count_cores(const std::vector<int>& threads, const std::string& root) {
  std::set<std::string> cores;
  for (int thread : threads) {
    const std::string siblings = read_line(
        fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, thread));
    cores.insert(siblings.empty() ? std::to_string(thread) : siblings);
  }
  return int(cores.size());
}

double cgroup_cpu_quota(const std::string& root, const std::string& membership) {
  double least = 0;
  const auto take = [&](double quota) {
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  };
  std::istringstream lines(membership);
  // "0::/path" is version 2's line, "4:cpu,cpuacct:/path" one of version 1.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") take(least_quota(root, path, read_version_2));
    if (controllers.find(",cpu,") == std::string::npos) continue;
    take(least_quota(root + "/cpu", path, read_version_1));
    take(least_quota(root + "/cpu,cpuacct", path, read_version_1));
  }
  return least;
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
