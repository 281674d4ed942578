// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/fault_log.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace lockstep {
namespace {

constexpr int kMaxWaitMs = 300;

}  // namespace

void FaultLog::open_transcript(const std::string& file, RunLog::Open how) {
  open(transcript_, file, RunLog(file, how));
}

void FaultLog::open_host(const std::string& file, int rank) {
  RunLog opened(file, RunLog::Open::shared);
  {
    const std::lock_guard lock(picking_);
    host_.how = RunLog::Open::shared;
    rank_ = rank;
  }
  open(host_, file, std::move(opened));
}

void FaultLog::open(Log& one, const std::string& file, RunLog opened) {
  std::shared_ptr<RunLog> again;
  const std::lock_guard lock(picking_);
  one.log = std::move(opened);
  one.is_open = true;
  one.file = file;
  again.swap(one.again);
}

// A run that is done has closed it, or is about to, but its ranks still wait for each other.
void FaultLog::write_lines(Log& one, std::initializer_list<std::string_view> lines) {
  RunLog* log = nullptr;
  std::shared_ptr<RunLog> again;
  std::string file;
  RunLog::Open how{};
  {
    const std::lock_guard lock(picking_);
    if (one.file.empty()) return;
    if (one.is_open) log = &one.log;
    again = one.again;
    file = one.file;
    how = one.how;
  }
  if (log == nullptr && again == nullptr) {
    const auto opened = std::make_shared<RunLog>(file, how);
    const std::lock_guard lock(picking_);
    if (one.again == nullptr && one.file == file) one.again = opened;
    again = one.again != nullptr ? one.again : opened;
  }
  if (log == nullptr) log = again.get();
  for (const std::string_view line : lines) log->write_line(line);
}

void FaultLog::write_host_line(const std::string& object) {
  write_lines(host_,
              {fmt::format("{{\"rank\":{},{}", rank_.load(), std::string_view(object).substr(1))});
}

void FaultLog::write(const FaultRecord& record, bool on_screen) {
  const std::string block = to_block(record);
  // The screen first: a file system may hang, which the watchdog allows only so long.
  if (on_screen) write_to_screen(block);
  const std::string line = to_json_line(record);
  write_lines(transcript_, {std::string_view(block).substr(0, block.size() - 1), line});
  write_host_line(line);
}

std::string FaultLog::close() {
  {
    const std::lock_guard lock(picking_);
    transcript_.is_open = host_.is_open = false;
  }
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
