// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/io/run_log.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {

/// Where fault records of this rank go: where they are to be seen onto the screen, and into the
/// logs of its run, once these are open. Lives as long as the Job, so that what ends a run is
/// written after everything else.
///
/// Note [Logs of a host]. Rank 0 has a transcript of the run, for people. What ranks have to say of
/// themselves is one file of JSON lines for each host, not for each rank: ten thousand files in one
/// folder are a burden to a shared file system. Each line has its rank and is one write at the end
/// of the file, which a kernel does one after the other for all its processes. Between hosts NFS
/// does not, so that no two share a file; a host is a kernel here (machine_id()), whatever its
/// containers are named.
class FaultLog {
 public:
  /// From here on records go into `file` as well, as people and programs read them. Never throws;
  /// see RunLog.
  void open_transcript(const std::string& file, RunLog::Open how);
  /// The same of the host's file, as lines of `rank`.
  void open_host(const std::string& file, int rank);
  /// The transcript; not open before.
  RunLog& log() { return transcript_.log; }
  /// Appends `object`, a JSON object on one line that is not empty, to the host's file, with the
  /// rank as its first member.
  void write_host_line(const std::string& object);

  /// May be called by any thread, and by one that must not wait: what cannot be written in time is
  /// skipped.
  void write(const FaultRecord& record, bool on_screen);
  /// Closes both. Returns the first error of each, on lines of their own; empty: all went well.
  std::string close();

 private:
  struct Log {
    RunLog log;
    bool is_open = false;           // and not about to be closed
    std::shared_ptr<RunLog> again;  // opened after that
    std::string file;
    RunLog::Open how = RunLog::Open::append;
  };
  void open(Log& one, const std::string& file, RunLog opened);
  void write_lines(Log& one, std::initializer_list<std::string_view> lines);

  /// For the members below, never while a file is opened, written or closed: a file system that
  /// hangs under one log must not keep a verdict from the other.
  std::mutex picking_;
  Log transcript_, host_;
  std::atomic<int> rank_{0};
};

/// Writes to standard error without ever waiting for a reader for more than a moment; what does not
/// fit is lost.
void write_to_screen(const std::string& text);

}  // namespace lockstep
