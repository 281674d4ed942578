// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/host_probe.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/host/machine.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

Words command(const std::string& host, const ProbeProgram& program, int connect_s) {
  const std::string timeout = "ConnectTimeout=" + std::to_string(connect_s);
  if (program.kind == ProbeProgram::Kind::ssh)
    return {program.path, "-o", "BatchMode=yes", "-o", timeout, host, "true"};
  // Slurm ends the step after a minute where srun is killed first.
  return {program.path,
          "--overlap",
          "--time=1",
          "--nodes=1",
          "--ntasks=1",
          "--nodelist=" + host,
          "true"};
}

constexpr std::chrono::seconds kPatience{10}, kPatienceForSteps{30};

/// Of this process, as pointers to end with a null. For a job step without what the job as a whole
/// was submitted with, GPUs and memory above all, which one node may not have: that is in SLURM_*.
std::vector<char*> variables_for(const ProbeProgram& program) {
  constexpr std::array<std::string_view, 4> kKept{
      "SLURM_JOB_ID=", "SLURM_JOBID=", "SLURM_CONF=", "SLURM_CLUSTER_NAME="};
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const bool of_job =
        text.starts_with("SLURM_") &&
        std::ranges::none_of(kKept, [&](std::string_view name) { return text.starts_with(name); });
    if (program.kind == ProbeProgram::Kind::ssh || !of_job) kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

pid_t start(Words words, const ProbeProgram& program) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::vector<char*> variables = variables_for(program);
  const pid_t pid = fork();
  if (pid > 0) setpgid(pid, pid);  // whichever of the two comes first
  if (pid != 0) return pid;
  setpgid(0, 0);
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  execvpe(arguments[0], arguments.data(), variables.data());
  _exit(127);
}

}  // namespace

bool is_this_host(const std::string& name) {
  const char* const node = std::getenv("SLURMD_NODENAME");
  if (node != nullptr && name == node) return true;
  const std::string own = host_name();
  return name == "localhost" || name == "127.0.0.1" || name == own ||
         name == own.substr(0, own.find('.')) || name.substr(0, name.find('.')) == own;
}

HostProbe::HostProbe(const std::string& host, const ProbeProgram& program, int connect_s)
    : deadline_(std::chrono::steady_clock::now() +
                (program.kind == ProbeProgram::Kind::ssh ? kPatience : kPatienceForSteps)) {
  if (program.kind == ProbeProgram::Kind::ssh && is_this_host(host)) {
    answer_ = true;
    return;
  }
  pid_ = start(command(host, program, connect_s), program);
  if (pid_ < 0) answer_ = false;
}

HostProbe::HostProbe(HostProbe&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), answer_(other.answer_), deadline_(other.deadline_) {}

HostProbe::~HostProbe() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<bool> HostProbe::answer() {
  if (pid_ <= 0) return answer_;
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended == 0 && std::chrono::steady_clock::now() <= deadline_) return std::nullopt;
  if (ended == 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  answer_ = ended == pid_ && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  pid_ = -1;
  return answer_;
}

}  // namespace lockstep
