// SPDX-License-Identifier: Apache-2.0
#include "launcher/processes/program_path.h"

#include <climits>
#include <sstream>
#include <sys/types.h>
#include <unistd.h>

#include "core/base/check.h"

namespace lockstep {

std::string find_program(const std::string& program, const VariableMap& variables) {
  const auto path = variables.find("PATH");
  if (path == variables.end()) return {};
  std::istringstream folders(path->second);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

std::string own_path() {
  char path[PATH_MAX] = {};
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  LOCKSTEP_CHECK(length > 0, EnvironmentError, "/proc/self/exe cannot be read");
  return path;
}

}  // namespace lockstep
