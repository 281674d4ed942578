// SPDX-License-Identifier: Apache-2.0
#include "core/host/machine.h"

#include <fstream>
#include <unistd.h>

namespace lockstep {
namespace {

std::string target_of(const char* link) {
  char name[64];
  const ssize_t size = readlink(link, name, sizeof name);
  return size > 0 ? std::string(name, std::size_t(size)) : std::string();
}

}  // namespace

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string machine_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id.empty() ? host_name() : id;
}

std::string network_id() { return target_of("/proc/self/ns/net"); }
std::string process_space_id() { return target_of("/proc/self/ns/pid"); }

}  // namespace lockstep
