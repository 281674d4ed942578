// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

#include "core/io/run_log.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {

/// This rank's log, logs/rank_N.log, and where fault records of this rank go: into it, once it is
/// open, and where they are to be seen onto the screen. Lives as long as the Job, so that what ends
/// a run is written after everything else.
class FaultLog {
 public:
  /// From here on records go into `file` as well. Never throws; see RunLog.
  void open(const std::string& file, RunLog::Open how);
  /// Empty until it is open.
  RunLog& log() { return log_; }

  /// May be called by any thread, and by one that must not wait: what cannot be written in time is
  /// skipped.
  void write(const FaultRecord& record, bool on_screen);

 private:
  std::mutex opening_;
  RunLog log_;
  std::string file_;
};

/// Writes to standard error without ever waiting for a reader for more than a moment; what does not
/// fit is lost.
void write_to_screen(const std::string& text);

}  // namespace lockstep
