// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/fault_log.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <poll.h>
#include <string_view>
#include <unistd.h>

namespace lockstep {
namespace {

constexpr int kMaxWaitMs = 300;

}  // namespace

void FaultLog::open(const std::string& file, RunLog::Open how) {
  RunLog opened(file, how);
  const std::lock_guard lock(opening_);
  log_ = std::move(opened);
  file_ = file;
}

void FaultLog::write(const FaultRecord& record, bool on_screen) {
  const std::string block = to_block(record);
  // The screen first: a file system may hang, which the watchdog allows only so long.
  if (on_screen) write_to_screen(block);
  if (const std::unique_lock lock(opening_, std::try_to_lock); lock) {
    // A run that is done has closed it, but its ranks still wait for each other.
    RunLog again;
    if (!log_.is_open() && !file_.empty()) again = RunLog(file_, RunLog::Open::append);
    RunLog& log = again.is_open() ? again : log_;
    log.write_line(std::string_view(block).substr(0, block.size() - 1));
    log.write_line(to_json_line(record));
  }
}

void write_to_screen(const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    pollfd screen{STDERR_FILENO, POLLOUT, 0};
    if (poll(&screen, 1, kMaxWaitMs) <= 0 || (screen.revents & POLLOUT) == 0) return;
    // A pipe that is ready takes that much without blocking, and at once.
    const ssize_t written =
        ::write(STDERR_FILENO, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) return;
    rest.remove_prefix(std::size_t(written));
  }
}

}  // namespace lockstep
