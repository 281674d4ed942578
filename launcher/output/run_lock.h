// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void open_file();
  bool still_has_its_name();

  std::string file_;
  int descriptor_ = -1;
};

}  // namespace lockstep
