// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/snapshot_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "core/data/input_file.h"
#include "core/io/checkpoint.h"
#include "core/io/checkpoint_names.h"
#include "core/io/output_file.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr const char* kMemory = "/dev/shm";
constexpr std::string_view kSnapshotsPrefix = "lockstep-snapshots-";
/// In the folder: the path of the run's.
constexpr const char* kOwner = "run";

/// Without its end of line; empty where it cannot be read.
std::string line_in(const fs::path& file) {
  try {
    std::string text = data::read_text_file(file.string(), "");
    if (text.ends_with('\n')) text.pop_back();
    return text;
  } catch (const Error&) {
    return {};
  }
}

/// A folder that no other user can write to.
bool is_own_folder(const fs::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

bool has_folders_name(const fs::path& path) {
  return path.parent_path() == kMemory && path.filename().string().starts_with(kSnapshotsPrefix);
}

/// Locked for as long as it is open; -1: another process has it, or it cannot be opened.
int lock_snapshots(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  return -1;
}

/// Folders that no supervisor holds, and whose run is gone or has another one. One without an owner
/// may have been made a moment ago.
void remove_orphans() {
  std::error_code error;
  for (fs::directory_iterator entry(kMemory, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path path = entry->path();
    if (!has_folders_name(path) || !is_own_folder(path)) continue;
    const std::string owner = line_in(path / kOwner);
    if (owner.empty() || line_in(fs::path(owner) / SnapshotFolder::kLink) == path.string())
      continue;
    const int lock = lock_snapshots(path);
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(path, ignored);
    close(lock);
  }
}

}  // namespace

SnapshotFolder::SnapshotFolder(const fs::path& out, bool takes_over)
    : out_(fs::absolute(out).lexically_normal()) {
  try {
    if (takes_over) take_over();
    if (path_.empty()) create();
  } catch (const std::exception& error) {
    why_none_ = error.what();
  }
  remove_orphans();
}

SnapshotFolder::~SnapshotFolder() {
  std::error_code ignored;
  if (!path_.empty()) {
    fs::remove_all(path_, ignored);
    fs::remove(out_ / kLink, ignored);
  }
  if (lock_ >= 0) close(lock_);
}

/// Not where another user could have put it there.
void SnapshotFolder::take_over() {
  const fs::path left = line_in(out_ / kLink);
  if (!has_folders_name(left) || !is_own_folder(left) || line_in(left / kOwner) != out_.string())
    return;
  lock_ = lock_snapshots(left);
  if (lock_ < 0) return;
  path_ = left.string();
  is_taken_over_ = true;
}

void SnapshotFolder::create() {
  std::string path = fmt::format("{}/{}XXXXXX", kMemory, kSnapshotsPrefix);
  if (mkdtemp(path.data()) == nullptr)
    throw EnvironmentError(fmt::format("{}: {}", kMemory, std::strerror(errno)));
  lock_ = lock_snapshots(path);
  path_ = path;
  try {
    io::write_file(fs::path(path) / kOwner, out_.string() + "\n");
    io::replace_file(out_ / kLink, path + "\n");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
    path_.clear();
    throw;
  }
}

std::int64_t SnapshotFolder::newest_step() const {
  try {
    const std::vector<std::int64_t> steps = io::steps_in(path_);
    return path_.empty() || steps.empty() ? -1 : steps.back();
  } catch (const Error&) {
    return -1;
  }
}

std::optional<std::int64_t> SnapshotFolder::save_to(const fs::path& checkpoints) const {
  const std::int64_t newest = newest_step();
  const std::vector<std::int64_t> saved = io::steps_in(checkpoints);
  if (newest < 0 || (!saved.empty() && saved.back() >= newest)) return std::nullopt;
  std::vector<std::string> damaged;
  const auto found = io::newest_checkpoint(path_, damaged);
  if (!found || (!saved.empty() && saved.back() >= found->state.step)) return std::nullopt;
  io::copy_checkpoint(found->path, checkpoints);
  return found->state.step;
}

}  // namespace lockstep
