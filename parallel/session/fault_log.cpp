// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/fault_log.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <unistd.h>

namespace lockstep {
namespace {

constexpr int kMaxWaitMs = 300;

}  // namespace

void FaultLog::open_transcript(const std::string& file, RunLog::Open how) {
  RunLog opened(file, how);
  const std::lock_guard lock(opening_);
  transcript_.log = std::move(opened);
  transcript_.file = file;
}

void FaultLog::open_host(const std::string& file, int rank) {
  RunLog opened(file, RunLog::Open::shared);
  const std::lock_guard lock(opening_);
  host_.log = std::move(opened);
  host_.file = file;
  host_.how = RunLog::Open::shared;
  rank_ = rank;
}

// A run that is done has closed it, but its ranks still wait for each other.
RunLog& FaultLog::Log::reopened() {
  if (log.is_open() || file.empty()) return log;
  again = RunLog(file, how);
  return again;
}

void FaultLog::write_host_line(const std::string& object) {
  const std::lock_guard lock(opening_);
  write_locked(object);
}

void FaultLog::write_locked(const std::string& object) {
  host_.reopened().write_line(
      fmt::format("{{\"rank\":{},{}", rank_, std::string_view(object).substr(1)));
}

void FaultLog::write(const FaultRecord& record, bool on_screen) {
  const std::string block = to_block(record);
  // The screen first: a file system may hang, which the watchdog allows only so long.
  if (on_screen) write_to_screen(block);
  if (const std::unique_lock lock(opening_, std::try_to_lock); lock) {
    const std::string line = to_json_line(record);
    RunLog& log = transcript_.reopened();
    log.write_line(std::string_view(block).substr(0, block.size() - 1));
    log.write_line(line);
    write_locked(line);
  }
}

std::string FaultLog::close() {
  const std::lock_guard lock(opening_);
  std::string errors;
  for (Log* one : {&transcript_, &host_}) {
    one->log.close();
    if (const std::string& error = one->log.error(); !error.empty())
      errors += (errors.empty() ? "" : "\n") + error;
  }
  return errors;
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
