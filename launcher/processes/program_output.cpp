// SPDX-License-Identifier: Apache-2.0
#include "launcher/processes/program_output.h"

#include <chrono>
#include <csignal>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/processes/child_process.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kKilled = std::chrono::seconds(2);  // until a killed process is gone
constexpr std::size_t kMaxOutput = std::size_t(1) << 16;

/// Reads until the other side is closed or `end`; false: the time is over.
bool drain(int from, std::string& into, Clock::time_point end) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{from, POLLIN, 0};
    if (poll(&ready, 1, int(left.count())) <= 0) continue;
    char buffer[4096];
    const ssize_t count = ::read(from, buffer, sizeof buffer);
    if (count <= 0) return true;
    if (into.size() < kMaxOutput) into.append(buffer, std::size_t(count));
  }
}

/// The exit code; 127 where the child cannot be waited for, be it that a driver or a file system
/// lets it not even be killed.
int wait_for(pid_t child, Clock::time_point end, bool& timed_out) {
  int status = 0;
  pid_t ended = 0;
  if (timed_out) end = Clock::now();
  while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
    if (Clock::now() > end + kKilled) return 127;
    if (!timed_out && Clock::now() > end) {
      timed_out = true;
      kill(-child, SIGKILL);
    }
    usleep(2000);
  }
  if (ended < 0) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ProgramOutput run_program(const std::vector<std::string>& command, double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  ProgramOutput result;
  Pipe output;
  const pid_t child = spawn(command, {}, mask, output.write, output.write);
  output.close_write();
  if (!drain(output.read, result.output, end)) {
    result.timed_out = true;
    kill(-child, SIGKILL);
  }
  result.exit_code = wait_for(child, end, result.timed_out);
  return result;
}

}  // namespace lockstep
