// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/shm_backing_dir.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "launcher/processes/memory_folder.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr const char* kVariable = "OMPI_MCA_btl_vader_backing_directory";
constexpr const char* kSegments = "segments";

}  // namespace

std::vector<std::string> remove_abandoned_segments() {
  std::vector<std::string> removed;
  // One that has just been made may not be locked yet.
  const auto oldest_kept = fs::file_time_type::clock::now() - std::chrono::minutes(1);
  for (const fs::path& path : memory_folders(kSegments)) {
    std::error_code ignored;
    if (fs::last_write_time(path, ignored) > oldest_kept || ignored) continue;
    const int lock = lock_memory_folder(path);
    if (lock < 0) continue;
    if (fs::remove_all(path, ignored); !ignored) removed.push_back(path.string());
    close(lock);
  }
  return removed;
}

ShmBackingDir::ShmBackingDir(ChildPlan& child) {
  if (std::getenv(kVariable) != nullptr) return;
  remove_abandoned_segments();
  try {
    path_ = make_memory_folder(kSegments).string();
  } catch (const EnvironmentError&) {  // MPI's own place does as well
    return;
  }
  lock_ = lock_memory_folder(path_);
  child.variables[kVariable] = path_;
}

ShmBackingDir::~ShmBackingDir() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

}  // namespace lockstep
