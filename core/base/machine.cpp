// SPDX-License-Identifier: Apache-2.0
#include "core/base/machine.h"

#include <fstream>
#include <unistd.h>

namespace lockstep {

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

}  // namespace lockstep
