// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <sys/types.h>

namespace lockstep {

/// By its name, or by that which Slurm has for it where this process is in a job (SLURMD_NODENAME).
bool is_this_host(const std::string& name);

/// What asks a host whether it answers.
struct ProbeProgram {
  enum class Kind {
    ssh,  ///< `SSH -o BatchMode=yes -o ConnectTimeout=N HOST true`, which has 10 s
    srun  ///< a job step on that node of the allocation, which has 30 s
  };
  std::string path;
  Kind kind = Kind::ssh;
};

/// Asks a host whether it answers; what the program prints is dropped. ssh does not ask this host,
/// which answers. Of one thread.
class HostProbe {
 public:
  /// `connect_s`: seconds after which ssh gives up a host that takes no connection.
  HostProbe(const std::string& host, const ProbeProgram& program, int connect_s = 5);
  ~HostProbe();
  HostProbe(HostProbe&& other) noexcept;
  HostProbe& operator=(HostProbe&&) = delete;

  /// Nothing as long as it is not known; never waits. A probe that is killed, as the
  /// supervisor kills all that ranks have left, does not answer.
  std::optional<bool> answer();

 private:
  pid_t pid_ = -1;  // of the process, as long as it runs
  std::optional<bool> answer_;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace lockstep
