// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/shm_backing_dir.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr const char* kVariable = "OMPI_MCA_btl_vader_backing_directory";
constexpr std::string_view kPrefix = "lockstep-segments-";

/// The folder, locked for as long as it is open; -1: another process has it.
int lock_folder(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  return -1;
}

/// Removes what a killed process has left. One that has just been made may not be locked yet.
void remove_abandoned() {
  const auto oldest_kept = fs::file_time_type::clock::now() - std::chrono::minutes(1);
  std::error_code error;
  for (fs::directory_iterator entry("/dev/shm", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const fs::path path = entry->path();
    if (!path.filename().string().starts_with(kPrefix)) continue;
    if (entry->last_write_time(ignored) > oldest_kept || ignored) continue;
    const int lock = lock_folder(path);
    if (lock < 0) continue;
    fs::remove_all(path, ignored);
    close(lock);
  }
}

}  // namespace

ShmBackingDir::ShmBackingDir(ChildPlan& child) {
  if (std::getenv(kVariable) != nullptr) return;
  remove_abandoned();
  std::string path = "/dev/shm/" + std::string(kPrefix) + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return;
  path_ = path;
  lock_ = lock_folder(path_);
  child.variables[kVariable] = path_;
}

ShmBackingDir::~ShmBackingDir() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

}  // namespace lockstep
