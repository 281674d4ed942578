// SPDX-License-Identifier: Apache-2.0
#include "launcher/processes/host_facts.h"

#include <fmt/format.h>
#include <fstream>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/host/machine.h"

namespace lockstep {
namespace {

/// The text after the first line that starts with `key`, without separators and quotes.
std::string value_in(const char* file, const std::string& key) {
  std::ifstream input(file);
  for (std::string line; std::getline(input, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t first = line.find_first_not_of(" \t:=\"", key.size());
    const std::size_t last = line.find_last_not_of(" \t\"");
    return first == std::string::npos ? std::string() : line.substr(first, last - first + 1);
  }
  return {};
}

}  // namespace

std::string lockstep_version() { return LOCKSTEP_VERSION; }

HostFacts host_facts() {
  utsname kernel{};
  uname(&kernel);
  HostFacts facts;
  facts.host = host_name();
  facts.cpu = value_in("/proc/cpuinfo", "model name");
  facts.os = value_in("/etc/os-release", "PRETTY_NAME");
  facts.kernel = fmt::format("{} {} {}", kernel.sysname, kernel.release, kernel.machine);
  facts.host_cpus = int(sysconf(_SC_NPROCESSORS_ONLN));
  facts.version = LOCKSTEP_VERSION;
  facts.commit = LOCKSTEP_GIT_COMMIT;
  facts.compiler = LOCKSTEP_COMPILER;
  facts.build_type = LOCKSTEP_BUILD_TYPE;
  return facts;
}

}  // namespace lockstep
