// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/launch/supervisor.h"

namespace lockstep {

/// Removes folders of ShmBackingDir that killed processes of this user have left, a minute old or
/// more, and returns their paths.
std::vector<std::string> remove_abandoned_segments();

/// A folder in /dev/shm for the shared memory of a child's ranks (Open MPI's vader segments, 4 MB a
/// rank), which killed ranks do not remove: removed with all it holds, and so are those
/// that a killed process of this kind left. For ranks of this host alone. Without /dev/shm, or
/// where the user chose a folder, it does nothing.
class ShmBackingDir {
 public:
  /// Creates the folder and tells `child` about it.
  explicit ShmBackingDir(ChildPlan& child);
  ~ShmBackingDir();
  ShmBackingDir(const ShmBackingDir&) = delete;
  ShmBackingDir& operator=(const ShmBackingDir&) = delete;

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace lockstep
