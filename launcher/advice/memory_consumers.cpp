// SPDX-License-Identifier: Apache-2.0
#include "launcher/advice/memory_consumers.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <system_error>
#include <unistd.h>

#include "core/base/text/number_format.h"
#include "launcher/gpu_monitor/nvml.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct ProcessEntry {
  MemoryConsumer user;
  int parent = 0;
};

/// Nothing of it where the process is gone.
ProcessEntry read_process(const std::string& folder, int number) {
  ProcessEntry process;
  process.user.process = number;
  std::ifstream name(folder + "/comm");
  std::getline(name, process.user.name);
  std::ifstream sizes(folder + "/statm");
  std::uint64_t all = 0, resident = 0;
  if (sizes >> all >> resident)
    process.user.bytes = resident * std::uint64_t(sysconf(_SC_PAGESIZE));
  std::ifstream stat(folder + "/stat");
  std::string text;
  std::getline(stat, text);
  // "PID (name) state parent ...", where the name may hold anything.
  char state = 0;
  if (const std::size_t end = text.rfind(") "); end != std::string::npos)
    std::istringstream(text.substr(end + 2)) >> state >> process.parent;
  return process;
}

std::vector<ProcessEntry> read_processes(const std::string& root) {
  std::vector<ProcessEntry> processes;
  std::error_code error;
  for (fs::directory_iterator entry(root + "/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int number = 0;
    const auto result = std::from_chars(name.data(), name.data() + name.size(), number);
    if (result.ec == std::errc() && result.ptr == name.data() + name.size())
      processes.push_back(read_process(entry->path(), number));
  }
  return processes;
}

}  // namespace

std::vector<MemoryConsumer> largest_processes(std::size_t most,
                                              std::uint64_t least,
                                              bool siblings,
                                              const std::string& root) {
  const std::vector<ProcessEntry> processes = read_processes(root);
  ProcessEntry own;
  for (const ProcessEntry& process : processes)
    if (process.user.process == getpid()) own = process;
  std::vector<MemoryConsumer> users;
  for (const ProcessEntry& process : processes) {
    const bool sibling =
        process.parent == own.parent && process.user.name == own.user.name && own.parent > 0;
    if (process.user.process == getpid() || (sibling && !siblings)) continue;
    if (process.user.bytes >= least && process.user.bytes > 0) users.push_back(process.user);
  }
  std::ranges::stable_sort(users, std::ranges::greater{}, &MemoryConsumer::bytes);
  if (users.size() > most) users.resize(most);
  return users;
}

std::vector<MemoryConsumer> gpu_processes(const std::string& pool) {
  const Nvml nvml("");
  const Nvml::Device device = nvml.find(pool.substr(0, pool.find(' ')));
  std::vector<MemoryConsumer> users;
  if (device == nullptr) return users;
  for (const GpuUser& user : nvml.users(device)) {
    const std::string folder = fmt::format("/proc/{}", user.process);
    const std::string name = read_process(folder, user.process).user.name;
    if (user.process != getpid()) users.push_back({user.process, name, user.bytes});
  }
  std::ranges::stable_sort(users, std::ranges::greater{}, &MemoryConsumer::bytes);
  return users;
}

std::string to_string(const std::vector<MemoryConsumer>& users) {
  std::string text;
  for (const MemoryConsumer& user : users)
    text += fmt::format("{}{} (process {}){}",
                        text.empty() ? "" : ", ",
                        user.name.empty() ? "another program" : user.name,
                        user.process,
                        user.bytes == 0 ? "" : " " + format_bytes(double(user.bytes)));
  return text;
}

}  // namespace lockstep
