// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/supervisor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/run_log.h"
#include "launcher/launch/mpirun_guard.h"
#include "launcher/launch/mpirun_hang_detector.h"
#include "launcher/processes/child_process.h"
#include "launcher/processes/process_table.h"
#include "lockstep/error.h"
#include "parallel/watchdog/failure_report.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kKillAfterSeconds = 5;
/// For a reader to take what is left after the end, and where a stop was asked for.
constexpr int kPatienceMs = 1000, kStoppingPatienceMs = 200;

/// Kills and reaps every descendant that the launcher, now gone, has left; theirs become ours.
/// `others` were children of this process before: a shell that became it by exec had started them.
void end_leftovers(pid_t group, const std::vector<pid_t>& others) {
  kill(-group, SIGKILL);
  const auto give_up = Clock::now() + std::chrono::seconds(10);
  while (Clock::now() < give_up) {
    std::vector<pid_t> left = children_of(getpid());
    std::erase_if(left, [&](pid_t pid) { return std::ranges::find(others, pid) != others.end(); });
    if (left.empty()) return;
    for (const pid_t pid : left) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, WNOHANG);
    }
    poll(nullptr, 0, 10);
  }
}

class Supervision {
 public:
  Supervision(const ChildPlan& plan, SupervisorSignals& signals, SupervisorOutput& output)
      : plan_(plan),
        signals_(signals),
        output_(output),
        out_text_(plan.output_folder, "stdout"),
        err_text_(plan.output_folder, "stderr") {}

  Ending run() {
    // Whatever a killed launcher leaves becomes a child of this process, and can be found.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!plan_.inherits_output) out_.emplace();
    const std::vector<pid_t> others = children_of(getpid());
    child_ = spawn(
        plan_.command, plan_.variables, signals_.before(), out_ ? out_->write : -1, err_.write);
    if (out_) out_->close_write();
    err_.close_write();
    std::optional<MpirunHangDetector> idle;
    if (plan_.ranks_are_children) {
      idle.emplace(child_);
      guard_.emplace(child_);
    }
    while (!reap()) {
      guard();
      moves_ = moves_ || (plan_.is_to_move && plan_.is_to_move());
      ask_to_stop();
      wait();
      end_launcher((idle && idle->hangs()) || does_not_end_the_others() ||
                   does_not_end_after_the_run());
    }
    end_leftovers(child_, others);
    drain();
    Ending ending;
    ending.exit_code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
    // mpirun says 1, for want of an exit code, unless another rank's end comes to it first.
    if (errors_.deserted() && ending.exit_code == int(ExitCode::error))
      ending.exit_code = int(ExitCode::collective_timeout);
    // Those of MPI's errors mean something else here: Open MPI's MPI_ERR_REQUEST is 7, and its
    // MPI_ERR_PROC_FAILED 75, which only ranks that were to stop end with.
    const bool stops = signals_.requested() || moves_;
    const bool is_ours =
        ending.exit_code == int(ExitCode::requeue) ? stops : errors_.names_own_cause();
    if (errors_.aborted_by_mpi() && !is_ours && ending.exit_code > 0 && ending.exit_code < 128)
      ending.exit_code = int(ExitCode::collective_timeout);
    // What mpirun would have said of a rank that is silent.
    if (launcher_hung_ && tells_of_silence(errors_.fault().text))
      ending.exit_code = int(ExitCode::collective_timeout);
    if ((launcher_hung_ || stage_ >= Stage::terminated) && noted_end_)
      ending.exit_code = *noted_end_;
    if (launcher_hung_)
      output_.err().line(fmt::format("warning: {} did not end although {}, and was killed",
                                     plan_.command[0],
                                     failed_ ? "a rank had failed" : "its ranks had"));
    output_.finish(signals_.requested() ? kStoppingPatienceMs : kPatienceMs);
    ending.stop_requested = signals_.requested();
    ending.moves = moves_;
    ending.out_of_grace = stage_ >= Stage::terminated;
    ending.starting = starting_;
    ending.fault = errors_.fault();
    ending.ended = std::chrono::system_clock::now();
    ending.reported = reported_.value_or(ending.ended);
    return ending;
  }

 private:
  enum class Stage { running, asked, terminated, killed };

  void guard() {
    if (!guard_) return;
    guard_->look();
    if (const auto warning = guard_->refusal()) output_.err().line(*warning);
  }

  bool reap() { return waitpid(child_, &status_, WNOHANG) == child_; }

  bool does_not_end_after_the_run() {
    const bool may_hang = survivors_ > 0 || signals_.requested() || moves_;
    if (!may_hang || !plan_.noted_end) return false;
    const auto now = Clock::now();
    if (now - looked_ < std::chrono::seconds(1)) return false;
    looked_ = now;
    if (!noted_end_ && (noted_end_ = plan_.noted_end())) done_ = now;
    return noted_end_ && now - done_ >= std::chrono::duration<double>(kLauncherPatience);
  }

  bool does_not_end_the_others() {
    if (!errors_.failed()) return false;
    const auto now = Clock::now();
    if (!failed_) failed_ = now;
    const bool silent = tells_of_silence(errors_.fault().text);
    const double patience_s = silent ? plan_.after_silence_s : plan_.after_error_s;
    return patience_s > 0 && now - *failed_ >= std::chrono::duration<double>(patience_s);
  }

  void end_launcher(bool hangs) {
    const auto now = Clock::now();
    const std::chrono::duration<double> waited = now - hung_;
    if (launcher_hung_ && plan_.sigterm_first && waited.count() >= kKillAfterSeconds)
      kill(child_, SIGKILL);
    if (launcher_hung_ || !hangs) return;
    launcher_hung_ = true;
    hung_ = now;
    kill(child_, plan_.sigterm_first ? SIGTERM : SIGKILL);
  }

  /// What the time since the wish to stop calls for.
  void ask_to_stop() {
    if (!signals_.requested() && !moves_) return;
    const auto now = Clock::now();
    if (stage_ == Stage::running) {
      stage_ = Stage::asked;
      asked_ = repeated_ = now;
      starting_ = plan_.is_starting && plan_.is_starting();
      if (!starting_) kill(child_, SIGUSR1);
    }
    const std::chrono::duration<double> waited = now - asked_;
    if (stage_ == Stage::asked &&
        (starting_ || signals_.at_once() || waited.count() >= plan_.grace_s)) {
      stage_ = Stage::terminated;
      terminated_ = now;
      kill(child_, SIGTERM);
    }
    if (stage_ == Stage::asked && !noted_end_ && now - repeated_ >= std::chrono::seconds(1)) {
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
    std::array<pollfd, 5> waited{pollfd{signals_.descriptor(), POLLIN, 0},
                                 pollfd{err_.read, POLLIN, 0},
                                 pollfd{out_ ? out_->read : -1, POLLIN, 0},
                                 output_.out().waited(),
                                 output_.err().waited()};
    const int pause_ms = signals_.requested() || moves_ || failed_ ? 100 : 1000;
    poll(waited.data(), waited.size(), guard_ ? std::min(pause_ms, guard_->pause_ms()) : pause_ms);
    if (waited[0].revents != 0) signals_.read();
    if (waited[1].revents != 0 && !read_errors()) err_.close_read();
    if (waited[2].revents != 0 && !read_output()) out_->close_read();
    output_.push();
  }

  /// What was written before the end. A process outside of our reach may hold the other end open.
  void drain() {
    for (const auto& [pipe, read] :
         {std::pair{&err_, &Supervision::read_errors},
          std::pair{out_ ? &*out_ : nullptr, &Supervision::read_output}}) {
      const auto give_up = Clock::now() + std::chrono::seconds(2);
      while (pipe != nullptr && pipe->read >= 0 && Clock::now() < give_up) {
        pollfd waited{pipe->read, POLLIN, 0};
        if (poll(&waited, 1, 100) > 0 && !(this->*read)()) break;
      }
    }
    if (plan_.labelled) {
      output_.out().pass(out_text_.end());
      output_.err().pass(errors_.take(err_text_.end()));
    }
    output_.err().pass(errors_.end());
  }

  bool read_errors() {
    const std::string_view piece = read_piece(err_.read);
    output_.err().pass(errors_.take(plan_.labelled ? err_text_.take(piece) : std::string(piece)));
    if (errors_.survivors() > 0 && errors_.survivors() != survivors_) {
      survivors_ = errors_.survivors();
      failed_.reset();
      reported_.reset();
      if (plan_.on_survivors) plan_.on_survivors(survivors_);
    }
    if (!reported_ && errors_.reports()) reported_ = std::chrono::system_clock::now();
    return !piece.empty();
  }

  bool read_output() {
    const std::string_view piece = read_piece(out_->read);
    output_.out().pass(plan_.labelled ? out_text_.take(piece) : std::string(piece));
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
  SupervisorSignals& signals_;
  SupervisorOutput& output_;
  std::optional<Pipe> out_;
  Pipe err_;
  LabelledOutput out_text_, err_text_;
  ErrorOutput errors_;
  std::array<char, 65536> buffer_;
  pid_t child_ = -1;
  std::optional<MpirunGuard> guard_;
  int status_ = 0;
  bool launcher_hung_ = false;
  bool moves_ = false;
  bool starting_ = false;  // when the ranks were to be asked
  int survivors_ = 0;      // that the newest of on_survivors told
  Stage stage_ = Stage::running;
  Clock::time_point asked_, repeated_, terminated_, hung_;
  std::optional<Clock::time_point> failed_;
  std::optional<int> noted_end_;
  Clock::time_point looked_, done_;
  std::optional<std::chrono::system_clock::time_point> reported_;
};

}  // namespace

void SupervisorOutput::push() {
  out_.push();
  err_.push();
  if (const auto trouble = out_.trouble()) tell(*trouble, err_);
  if (const auto trouble = err_.trouble()) tell(*trouble, out_);
  write_log();
}

void SupervisorOutput::finish(int patience_ms) {
  push();
  out_.finish(patience_ms);
  err_.finish(patience_ms);
  push();
}

void SupervisorOutput::tell(const std::string& trouble, OutputRelay& other) {
  const std::string text = fmt::format("warning: {}; the ranks continue", trouble);
  if (elsewhere_ != nullptr) return elsewhere_->line(text);
  const bool kept = !log_.empty() && access(log_.c_str(), W_OK) == 0;
  other.line(kept ? fmt::format("{}, and {} has the output of rank 0", text, log_) : text);
  if (!log_.empty()) untold_.push_back(text);
}

void SupervisorOutput::write_log() {
  if (untold_.empty() || access(log_.c_str(), W_OK) != 0) return;
  RunLog log(log_, RunLog::Open::append);
  for (const std::string& text : untold_) log.write_line(text);
  if (log.error().empty()) untold_.clear();
}

Ending supervise(const ChildPlan& plan, SupervisorSignals& signals, SupervisorOutput& output) {
  return Supervision(plan, signals, output).run();
}

}  // namespace lockstep
