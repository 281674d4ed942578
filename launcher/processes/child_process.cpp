// SPDX-License-Identifier: Apache-2.0
#include "launcher/processes/child_process.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "core/base/check.h"

namespace lockstep {
namespace {

/// The child's side of fork(): only calls that are safe there.
[[noreturn]] void become(char* const* arguments,
                         char* const* variables,
                         const sigset_t& mask,
                         pid_t parent,
                         int out,
                         int err,
                         int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  // Inherited by mpirun, and from it by the ranks: one that comes before they can take it does not
  // end them.
  std::signal(SIGUSR1, SIG_IGN);
  // Output of a background process must not stop it, whatever the terminal's settings (tostop).
  std::signal(SIGTTOU, SIG_IGN);
  // A background process must not read from the terminal.
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(arguments[0], arguments, variables);
  const int error = errno;
  if (::write(failure, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

std::vector<std::string> with_own(const VariableMap& variables) {
  VariableMap all = process_variables();
  for (const auto& [name, value] : variables) all[name] = value;
  std::vector<std::string> result;
  for (const auto& [name, value] : all) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

Pipe::Pipe() {
  int ends[2];
  LOCKSTEP_CHECK(pipe2(ends, O_CLOEXEC) == 0,
                 EnvironmentError,
                 "pipe: {}",
                 std::generic_category().message(errno));
  read = ends[0];
  write = ends[1];
}

Pipe::~Pipe() {
  close_read();
  close_write();
}

void Pipe::close_read() {
  if (read >= 0) close(read);
  read = -1;
}

void Pipe::close_write() {
  if (write >= 0) close(write);
  write = -1;
}

pid_t spawn(const std::vector<std::string>& command,
            const VariableMap& variables,
            const sigset_t& mask,
            int out,
            int err) {
  const std::vector<std::string> environment = with_own(variables);
  const std::vector<char*> argument_pointers = pointers(command);
  const std::vector<char*> variable_pointers = pointers(environment);
  Pipe failure;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0)
    become(
        argument_pointers.data(), variable_pointers.data(), mask, parent, out, err, failure.write);
  const int fork_error = errno;
  failure.close_write();
  int error = 0;
  if (child < 0)
    error = fork_error;
  else if (::read(failure.read, &error, sizeof error) > 0)
    waitpid(child, nullptr, 0);
  LOCKSTEP_CHECK(error == 0,
                 EnvironmentError,
                 "{} cannot be started: {}",
                 command[0],
                 std::generic_category().message(error));
  return child;
}

}  // namespace lockstep
