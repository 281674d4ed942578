// SPDX-License-Identifier: Apache-2.0
#include "core/host/host_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <sys/stat.h>

namespace lockstep {
namespace {

/// Version 1 writes the largest multiple of a page where there is no limit.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

void take_least(std::optional<std::uint64_t>& least, std::uint64_t bytes) {
  least = std::min(least.value_or(bytes), bytes);
}

/// Nothing where the file is not there or does not begin with a number ("max").
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// The sum of the lines "NAME NUMBER" with one of two names.
std::uint64_t sum_of_lines(const std::string& path,
                           std::string_view first,
                           std::string_view second) {
  std::ifstream file(path);
  std::uint64_t sum = 0, number = 0;
  for (std::string name; file >> name >> number;)
    if (name == first || name == second) sum += number;
  return sum;
}

/// How the files of a version of control groups are called.
struct GroupFiles {
  const char *limit, *used, *inactive, *active;
};
constexpr GroupFiles kVersion1{
    "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file", "total_active_file"};
constexpr GroupFiles kVersion2{"/memory.max", "/memory.current", "inactive_file", "active_file"};

void read_group(const std::string& folder,
                const std::string& path,
                const GroupFiles& files,
                HostMemory& memory) {
  const auto limit = read_number(folder + files.limit);
  const auto used = read_number(folder + files.used);
  if (!limit || !used || *limit >= kNoLimit) return;
  const std::uint64_t cached = sum_of_lines(folder + "/memory.stat", files.inactive, files.active);
  const std::uint64_t held = *used - std::min(*used, cached);
  take_least(memory.free, *limit - std::min(*limit, held));
  memory.total = memory.total == 0 ? *limit : std::min(memory.total, *limit);
  if (!memory.group.empty()) return;
  memory.group = path.empty() ? "/" : path;
  struct stat facts {};
  if (stat(folder.c_str(), &facts) == 0) memory.group_id = facts.st_ino;
}

/// The group `path` below `mount` and all around it. In a container, `path` may be one that only
/// the host has: then `mount` itself is the container's group.
void read_groups(const std::string& mount,
                 std::string path,
                 const GroupFiles& files,
                 HostMemory& memory) {
  if (path == "/") path.clear();
  while (true) {
    read_group(mount + path, path, files, memory);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

void read_all_groups(const std::string& root, HostMemory& memory) {
  std::ifstream memberships(root + "/proc/self/cgroup");
  // "0::/path" is version 2's line, "4:memory:/path" one of version 1.
  for (std::string line; std::getline(memberships, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") read_groups(root + "/sys/fs/cgroup", path, kVersion2, memory);
    if (controllers.find(",memory,") != std::string::npos)
      read_groups(root + "/sys/fs/cgroup/memory", path, kVersion1, memory);
  }
}

/// Of a line of /proc/self/limits, "Max address space   4096   unlimited   bytes".
std::optional<std::uint64_t> own_limit(const std::string& root, std::string_view name) {
  std::ifstream file(root + "/proc/self/limits");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    std::uint64_t bytes = 0;
    if (words >> bytes) return bytes;
    return std::nullopt;
  }
  return std::nullopt;
}

/// Of a line "VmSize:    4096 kB" of /proc/self/status.
std::uint64_t own_use(const std::string& root, std::string_view name) {
  std::ifstream file(root + "/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::uint64_t kib = 0;
    std::istringstream(line.substr(name.size())) >> kib;
    return kib * 1024;
  }
  return 0;
}

void read_own_limit(const std::string& root,
                    std::string_view limit_name,
                    std::string_view use_name,
                    HostMemory& memory) {
  const auto limit = own_limit(root, limit_name);
  if (limit) take_least(memory.own, *limit - std::min(*limit, own_use(root, use_name)));
}

}  // namespace

std::optional<std::uint64_t> HostMemory::left() const {
  if (free && own) return std::min(*free, *own);
  return free ? free : own;
}

HostMemory read_host_memory(const std::string& root) {
  HostMemory memory;
  std::ifstream file(root + "/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kib = 0; file >> name >> kib; std::getline(file, unit)) {
    if (name == "MemTotal:") memory.total = kib * 1024;
    if (name == "MemAvailable:") memory.free = kib * 1024;
  }
  read_all_groups(root, memory);
  read_own_limit(root, "Max address space", "VmSize:", memory);
  read_own_limit(root, "Max data size", "VmData:", memory);
  return memory;
}

}  // namespace lockstep
