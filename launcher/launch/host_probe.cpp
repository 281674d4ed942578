// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/host_probe.h"

#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "core/host/machine.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kPatience{10};

pid_t start(const std::string& host, const std::string& ssh, int connect_s) {
  const std::string timeout = "ConnectTimeout=" + std::to_string(connect_s);
  const pid_t pid = fork();
  if (pid > 0) setpgid(pid, pid);  // whichever of the two comes first
  if (pid != 0) return pid;
  setpgid(0, 0);
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  execlp(ssh.c_str(),
         ssh.c_str(),
         "-o",
         "BatchMode=yes",
         "-o",
         timeout.c_str(),
         host.c_str(),
         "true",
         nullptr);
  _exit(127);
}

}  // namespace

bool is_this_host(const std::string& name) {
  const std::string own = host_name();
  return name == "localhost" || name == "127.0.0.1" || name == own ||
         name == own.substr(0, own.find('.')) || name.substr(0, name.find('.')) == own;
}

HostProbe::HostProbe(const std::string& host, const std::string& ssh, int connect_s)
    : deadline_(std::chrono::steady_clock::now() + kPatience) {
  if (is_this_host(host)) {
    answer_ = true;
    return;
  }
  pid_ = start(host, ssh, connect_s);
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
