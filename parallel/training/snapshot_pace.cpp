// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/snapshot_pace.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <sys/statvfs.h>

#include "core/base/text/number_format.h"
#include "core/host/host_memory.h"
#include "core/io/folder.h"

namespace lockstep {

SnapshotPace::Time SnapshotPace::due_at() const {
  const std::chrono::duration<double> interval(interval_);
  return last_ + std::chrono::duration_cast<MonotonicClock::duration>(interval);
}

void SnapshotPace::taken(double stall_seconds, Time now) {
  last_ = now;
  stall_ = stall_seconds;
}

void SnapshotPace::written(double seconds) {
  if (fixed_ == 0) interval_ = std::max(kMinSeconds, (stall_ + seconds) / kShare);
}

std::optional<std::string> lack_of_room(const std::string& folder,
                                        std::uint64_t bytes,
                                        std::uint64_t copies) {
  struct statvfs facts {};
  if (statvfs(folder.c_str(), &facts) != 0)
    return fmt::format("{}: {}", folder, std::strerror(errno));
  if (!io::is_private(folder)) return folder + " is open to other users";
  const std::uint64_t held = io::bytes_in(folder);
  const std::uint64_t room = std::uint64_t(facts.f_bavail) * facts.f_frsize + held;
  if (room < 2 * bytes)
    return fmt::format("{} has room for {}, and two of {} are needed",
                       folder,
                       format_bytes(double(room)),
                       format_bytes(double(bytes)));
  const std::optional<std::uint64_t> free = read_host_memory().free;
  if (free && (*free + held) / 2 < 2 * bytes + copies)
    return fmt::format("{} of memory are free, and two of {}{} would take more than half of it",
                       format_bytes(double(*free + held)),
                       format_bytes(double(bytes)),
                       copies > 0 ? " and the ranks' copies" : "");
  return std::nullopt;
}

}  // namespace lockstep
