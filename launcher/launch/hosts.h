// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/launch/host_probe.h"

namespace lockstep {

/// A host and the ranks it takes.
struct Host {
  std::string name;
  int slots = 1;
  bool operator==(const Host&) const = default;
};

/// "a:2,b:2" (one rank where nothing is said), or the name of a file with a host a line, as
/// "a:2", "a 2" or mpirun's "a slots=2"; # begins a comment. A host named twice gets the sum.
/// Throws ConfigError: no host, a number of ranks that is none, a name that could be an option.
std::vector<Host> parse_hosts(const std::string& text);

/// "a:2,b:2"
std::string to_string(const std::vector<Host>& hosts);
int slots_of(const std::vector<Host>& hosts);

/// Those of `hosts` that answer a HostProbe by ssh, all asked at once: waits for 10 s at most.
std::vector<Host> answering_hosts(const std::vector<Host>& hosts,
                                  const ProbeProgram& program,
                                  int connect_s = 5);

}  // namespace lockstep
