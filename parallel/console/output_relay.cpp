// SPDX-License-Identifier: Apache-2.0
#include "parallel/console/output_relay.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace lockstep {
namespace {

/// The least that POSIX grants a pipe (PIPE_BUF): one that is ready takes it without blocking.
constexpr std::size_t kAtOnce = 512;
/// All that finish() waits, also for a reader that takes a little now and then.
constexpr auto kLongestFinish = std::chrono::seconds(10);

/// The terminal of `descriptor`, opened once more, so that a write never blocks there; what
/// others do with `descriptor` does not change by it. -1: none, or it cannot be opened.
int open_terminal(int descriptor) {
  if (isatty(descriptor) == 0) return -1;
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  return open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

}  // namespace

OutputRelay::OutputRelay(int descriptor, std::string name)
    : descriptor_(descriptor), name_(std::move(name)), terminal_(open_terminal(descriptor)) {
  if (terminal_ >= 0) descriptor_ = terminal_;
}

OutputRelay::~OutputRelay() {
  finish(1000);
  if (terminal_ >= 0) close(terminal_);
}

void OutputRelay::pass(std::string_view text) {
  if (lost_ || text.empty()) return;
  push();
  if (!lost_) keep(text);
  push();
}

void OutputRelay::line(std::string_view text) { pass(std::string(text) + '\n'); }

/// The text after what waits, or as many lines of it as fit.
void OutputRelay::keep(std::string_view text) {
  if (skips_line_) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return;
    skips_line_ = false;
    text.remove_prefix(end + 1);
  }
  if (!dropping_ && waiting() + text.size() <= kMaxWaiting) {
    waiting_ += text;
    if (!text.empty()) inside_line_ = text.back() != '\n';
    return;
  }
  if (text.empty()) return;
  if (!dropping_) {
    const std::size_t room = kMaxWaiting - waiting();
    const std::size_t end = room == 0 ? text.npos : text.rfind('\n', room - 1);
    if (end != text.npos) {
      waiting_ += text.substr(0, end + 1);
      text.remove_prefix(end + 1);
      inside_line_ = false;
    }
    if (inside_line_) waiting_ += '\n';
    dropping_ = true;
    trouble_ = fmt::format("{} is not read: lines that do not fit into {} kB of memory are dropped",
                           name_,
                           kMaxWaiting / 1024);
  }
  dropped_ += std::ranges::count(text, '\n');
  inside_line_ = text.back() != '\n';
}

void OutputRelay::push() {
  while (waiting() > 0 && write_some(0)) {
  }
}

void OutputRelay::finish(int patience_ms) {
  const auto end = std::chrono::steady_clock::now() + kLongestFinish;
  while (waiting() > 0 && write_some(patience_ms) && std::chrono::steady_clock::now() < end) {
  }
}

/// False where the reader takes nothing for so long, or the output has failed.
bool OutputRelay::write_some(int patience_ms) {
  pollfd output{descriptor_, POLLOUT, 0};
  const int ready = poll(&output, 1, patience_ms);
  if (ready < 0 && errno == EINTR) return true;
  if (ready == 0) return false;
  const ssize_t written =
      ready < 0 ? -1 : ::write(descriptor_, waiting_.data() + taken_, std::min(waiting(), kAtOnce));
  if (written < 0 && errno == EINTR) return true;
  if (written < 0 && errno == EAGAIN) return false;
  if (written < 0) {
    lost_ = true;
    clear();
    trouble_ = fmt::format("{} is lost ({})", name_, std::generic_category().message(errno));
    return false;
  }
  taken_ += std::size_t(written);
  if (taken_ > kMaxWaiting) {
    waiting_.erase(0, taken_);
    taken_ = 0;
  }
  if (waiting() == 0) {
    clear();
    if (dropping_) resume();
  }
  return true;
}

void OutputRelay::clear() {
  waiting_.clear();
  taken_ = 0;
}

/// The reader has all that was kept: says what is missing, and continues with the next whole line.
void OutputRelay::resume() {
  dropping_ = false;
  skips_line_ = std::exchange(inside_line_, false);
  const long dropped = std::exchange(dropped_, 0) + (skips_line_ ? 1 : 0);
  if (dropped > 0)
    waiting_ = fmt::format("{} lines were dropped while they were not read\n", dropped);
}

std::optional<std::string> OutputRelay::trouble() { return std::exchange(trouble_, std::nullopt); }

}  // namespace lockstep
