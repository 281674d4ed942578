// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "core/base/error.h"
#include "launcher/idle_launcher.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kKillAfterSeconds = 5;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    LOCKSTEP_CHECK(pipe2(ends, O_CLOEXEC) == 0,
                   EnvironmentError,
                   "pipe: {}",
                   std::generic_category().message(errno));
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() {
    if (read >= 0) close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
};

/// A reader that has gone away must not stop the training.
void pass_on(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(std::size_t(written));
  }
}

/// The child's side of fork(): only calls that are safe there.
[[noreturn]] void become(char* const* arguments,
                         char* const* variables,
                         const StopSignals& signals,
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
  // A background process must not read from the terminal.
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
  execve(arguments[0], arguments, variables);
  const int error = errno;
  if (::write(failure, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

std::vector<std::string> variables_of(const ChildPlan& plan) {
  VariableMap all = process_variables();
  for (const auto& [name, value] : plan.variables) all[name] = value;
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

pid_t spawn(const ChildPlan& plan, const StopSignals& signals, int out, int err) {
  const std::vector<std::string> variables = variables_of(plan);
  const std::vector<char*> argument_pointers = pointers(plan.command);
  const std::vector<char*> variable_pointers = pointers(variables);
  Pipe failure;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0)
    become(argument_pointers.data(),
           variable_pointers.data(),
           signals,
           parent,
           out,
           err,
           failure.write);
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
                 plan.command[0],
                 std::generic_category().message(error));
  return child;
}

/// Processes whose parent is this one: orphans of a launcher, once it is gone itself.
std::vector<pid_t> children() {
  std::vector<pid_t> result;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const pid_t pid = pid_t(std::atol(entry->path().filename().c_str()));
    if (pid <= 0) continue;
    std::ifstream file(entry->path() / "stat");
    std::string text;
    std::getline(file, text);
    // "PID (name) state parent ...", where the name may hold anything.
    const std::size_t name_end = text.rfind(") ");
    if (name_end == std::string::npos) continue;
    if (std::atol(text.c_str() + std::min(name_end + 4, text.size())) == getpid())
      result.push_back(pid);
  }
  return result;
}

/// Kills and reaps every descendant that the launcher, now gone, has left; theirs become ours.
void end_leftovers(pid_t group) {
  kill(-group, SIGKILL);
  const auto give_up = Clock::now() + std::chrono::seconds(10);
  while (Clock::now() < give_up) {
    const std::vector<pid_t> left = children();
    if (left.empty()) return;
    for (const pid_t pid : left) kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    poll(nullptr, 0, 10);
  }
}

class Supervision {
 public:
  Supervision(const ChildPlan& plan, StopSignals& signals)
      : plan_(plan),
        signals_(signals),
        out_text_(plan.output_folder, "stdout"),
        err_text_(plan.output_folder, "stderr") {}

  Ending run() {
    // Whatever a killed launcher leaves becomes a child of this process, and can be found.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (plan_.labelled) out_.emplace();
    child_ = spawn(plan_, signals_, out_ ? out_->write : -1, err_.write);
    if (out_) out_->close_write();
    err_.close_write();
    std::optional<IdleLauncher> idle;
    if (plan_.ranks_are_children) idle.emplace(child_);
    while (!reap()) {
      ask_to_stop();
      wait();
      if (!idle || !idle->hangs()) continue;
      launcher_hung_ = true;
      kill(child_, SIGKILL);
    }
    end_leftovers(child_);
    drain();
    Ending ending;
    ending.exit_code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
    if (launcher_hung_) {
      ending.exit_code = int(ExitCode::error);  // what it would have been is lost
      pass_on(STDERR_FILENO,
              fmt::format("warning: {} did not end although its ranks had, and was killed\n",
                          plan_.command[0]));
    }
    ending.stop_asked = signals_.requested();
    ending.out_of_grace = stage_ >= Stage::terminated;
    ending.culprit = errors_.culprit();
    return ending;
  }

 private:
  enum class Stage { running, asked, terminated, killed };

  bool reap() { return waitpid(child_, &status_, WNOHANG) == child_; }

  /// What the time since the wish to stop calls for.
  void ask_to_stop() {
    if (!signals_.requested()) return;
    const auto now = Clock::now();
    if (stage_ == Stage::running) {
      stage_ = Stage::asked;
      asked_ = repeated_ = now;
      kill(child_, SIGUSR1);
    }
    const std::chrono::duration<double> waited = now - asked_;
    if (stage_ == Stage::asked && (signals_.at_once() || waited.count() >= plan_.grace_s)) {
      stage_ = Stage::terminated;
      terminated_ = now;
      kill(child_, SIGTERM);
    }
    if (stage_ == Stage::asked && now - repeated_ >= std::chrono::seconds(1)) {
      repeated_ = now;
      kill(child_, SIGUSR1);
    }
    const std::chrono::duration<double> dying = now - terminated_;
    if (stage_ == Stage::terminated && dying.count() >= kKillAfterSeconds) {
      stage_ = Stage::killed;
      kill(-child_, SIGKILL);
    }
  }

  /// Sleeps until there is something to read or a signal, or a deadline may have passed.
  void wait() {
    std::array<pollfd, 3> waited{pollfd{signals_.descriptor(), POLLIN, 0},
                                 pollfd{err_.read, POLLIN, 0},
                                 pollfd{out_ ? out_->read : -1, POLLIN, 0}};
    poll(waited.data(), waited.size(), signals_.requested() ? 100 : 1000);
    if (waited[0].revents != 0) signals_.read();
    if (waited[1].revents != 0 && !read_errors()) err_.close_read();
    if (waited[2].revents != 0 && !read_output()) out_->close_read();
  }

  /// What was written before the end. Somebody outside of our reach may hold the other end open.
  void drain() {
    const auto give_up = Clock::now() + std::chrono::seconds(2);
    for (const auto& [pipe, read] :
         {std::pair{&err_, &Supervision::read_errors},
          std::pair{out_ ? &*out_ : nullptr, &Supervision::read_output}}) {
      while (pipe != nullptr && pipe->read >= 0 && Clock::now() < give_up) {
        pollfd waited{pipe->read, POLLIN, 0};
        if (poll(&waited, 1, 100) > 0 && !(this->*read)()) break;
      }
    }
    if (plan_.labelled) {
      pass_on(STDOUT_FILENO, out_text_.end());
      pass_on(STDERR_FILENO, errors_.take(err_text_.end()));
    }
    pass_on(STDERR_FILENO, errors_.end());
  }

  bool read_errors() {
    const std::string_view piece = read_piece(err_.read);
    pass_on(STDERR_FILENO,
            errors_.take(plan_.labelled ? err_text_.take(piece) : std::string(piece)));
    return !piece.empty();
  }

  bool read_output() {
    const std::string_view piece = read_piece(out_->read);
    pass_on(STDOUT_FILENO, out_text_.take(piece));
    return !piece.empty();
  }

  /// Empty at the end of the stream.
  std::string_view read_piece(int descriptor) {
    ssize_t length = 0;
    do length = ::read(descriptor, buffer_.data(), buffer_.size());
    while (length < 0 && errno == EINTR);
    return {buffer_.data(), std::size_t(std::max<ssize_t>(length, 0))};
  }

  const ChildPlan& plan_;
  StopSignals& signals_;
  std::optional<Pipe> out_;
  Pipe err_;
  LabelledOutput out_text_, err_text_;
  ErrorOutput errors_;
  std::array<char, 65536> buffer_;
  pid_t child_ = -1;
  int status_ = 0;
  bool launcher_hung_ = false;
  Stage stage_ = Stage::running;
  Clock::time_point asked_, repeated_, terminated_;
};

}  // namespace

Ending supervise(const ChildPlan& plan, StopSignals& signals) {
  return Supervision(plan, signals).run();
}

}  // namespace lockstep
