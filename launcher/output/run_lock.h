// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Keeps two runs, or two supervisors, out of one folder: an exclusive lock on a file in it, which
/// the kernel releases when the process ends, however it ends. The file says who holds it.
class RunLock {
 public:
  static constexpr const char* kRun = "lock";                    ///< of rank 0
  static constexpr const char* kSupervisor = "supervisor.lock";  ///< of `lockstep run`
  /// A run that has just been killed may take this long to be gone.
  static constexpr double kPatienceSeconds = 5;

  /// Throws EnvironmentError: another run holds the lock (with its host, process and start), or the
  /// file cannot be made. A file system without locks is let pass.
  explicit RunLock(const std::string& folder, const std::string& name = kRun);
  ~RunLock();
  /// The last that the process does of which the run's result depends: it ends with this exit code.
  void note_end(int exit_code);
  /// What the newest process that had the lock has noted; nothing: it noted nothing.
  static std::optional<int> noted_end(const std::string& folder, const std::string& name);
  /// What the process that has the lock says of itself, "process 12 on node7, since 2026-01-31
  /// 12:00:00"; nothing where none has it. Waits for nothing; a run that starts just then tries
  /// again.
  static std::optional<std::string> holder(const std::string& folder, const std::string& name);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void open_file();
  bool still_has_its_name();

  std::string file_;
  int descriptor_ = -1;
};

}  // namespace lockstep
