// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/host_probe.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
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
  return {program.path, "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=" + host, "true"};
}

/// srun has no limit of its own.
std::chrono::seconds patience(const ProbeProgram& program, int connect_s) {
  constexpr int kSsh = 10, kForStep = 3;
  return std::chrono::seconds(program.kind == ProbeProgram::Kind::ssh ? kSsh
                                                                      : connect_s + kForStep);
}

pid_t start(Words words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid > 0) setpgid(pid, pid);  // whichever of the two comes first
  if (pid != 0) return pid;
  setpgid(0, 0);
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  execvp(arguments[0], arguments.data());
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
    : deadline_(std::chrono::steady_clock::now() + patience(program, connect_s)) {
  if (is_this_host(host)) {
    answer_ = true;
    return;
  }
  pid_ = start(command(host, program, connect_s));
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
