// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// The machine and the build, for environment.json.
struct HostFacts {
  std::string host;
  std::string cpu;      ///< model name
  std::string os;       ///< "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;   ///< "Linux 6.1.0 x86_64"
  int host_cpus = 1;    ///< online hardware threads, this rank's or not
  std::string version;  ///< of Lockstep
  std::string commit;   ///< it was built from; empty where that is unknown
  std::string compiler;
  std::string build_type;
};

HostFacts host_facts();
std::string lockstep_version();

}  // namespace lockstep
