// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

namespace lockstep {

/// Ends this process by _exit(), with `exit_code`, once `time` has passed, unless it is destroyed
/// before: whatever the other threads hang in, a full pipe, a dead file system or MPI.
class ExitDeadline {
 public:
  ExitDeadline(std::chrono::milliseconds time, int exit_code);
  ~ExitDeadline();
  ExitDeadline(const ExitDeadline&) = delete;
  ExitDeadline& operator=(const ExitDeadline&) = delete;

  /// False: there was no memory for a thread that waits, so that nothing ends the process.
  bool is_set() const { return wait_ != nullptr; }
  /// The process ends also where this is destroyed.
  void keep() { wait_.reset(); }

 private:
  struct Wait;
  std::shared_ptr<Wait> wait_;
};

/// Ends this process after `time` for certain: without memory for a thread at once.
void exit_after(std::chrono::milliseconds time, int exit_code);

}  // namespace lockstep
