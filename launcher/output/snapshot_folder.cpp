// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/snapshot_folder.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <random>
#include <sstream>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/file_kind.h"
#include "core/data/input_file.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/folder.h"
#include "core/io/output_file.h"
#include "launcher/processes/memory_folder.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr const char* kKind = "snapshots";
/// In the folder: the path of the run's, and the word.
constexpr const char* kOwner = "run";
/// What the folder of a run that has begun to train holds.
constexpr const char* kRunMark = "history.jsonl";

/// What .snapshots and `run` are: the path of the other folder, and the word that both have.
struct FolderLink {
  std::string path, word;
};

/// Empty where it cannot be read.
FolderLink read_link(const fs::path& file) {
  FolderLink link;
  try {
    std::istringstream text(data::read_text_file(file.string(), ""));
    std::getline(text, link.path);
    std::getline(text, link.word);
  } catch (const Error&) {
    return {};
  }
  return link;
}

std::string text_of(const FolderLink& link) { return link.path + "\n" + link.word + "\n"; }

/// The folder that `run` names, where that is one of this user's; empty: none.
fs::path named_by(const fs::path& run, FolderLink& link) {
  link = read_link(run / SnapshotFolder::kLink);
  const fs::path folder = link.path;
  return is_memory_folder(folder, kKind) && io::is_private(folder) ? folder : fs::path();
}

/// What has become of the run in `out`, which `folder` names. A disk that is not mounted, or fails,
/// tells nothing.
LeftSnapshots::Run run_of(const fs::path& folder, const fs::path& out) {
  using Run = LeftSnapshots::Run;
  if (out.empty()) return Run::unknown;  // the folder is being made
  std::error_code error;
  const fs::file_type type = fs::status(out, error).type();
  if (type == fs::file_type::not_found)
    return fs::is_directory(out.parent_path(), error) ? Run::gone : Run::unknown;
  const fs::path file = out / SnapshotFolder::kLink;
  // An empty folder may be where a disk is mounted.
  if (fs::status(file, error).type() == fs::file_type::not_found)
    return is_there(out / kRunMark) ? Run::gone : Run::unknown;
  const FolderLink link = read_link(file);
  if (link.path.empty()) return Run::unknown;
  return link.path == folder.string() ? Run::ended : Run::gone;
}

void write_owner(const fs::path& folder, const FolderLink& owner) {
  io::replace_file(folder / kOwner, text_of(owner));
}

/// Makes the folder of that name, if it is one of snapshots. False: it is there, or cannot be made.
bool make_folder(const fs::path& folder) {
  return is_memory_folder(folder, kKind) && mkdir(folder.c_str(), S_IRWXU) == 0;
}

/// How long ranks of an earlier start may take to end.
constexpr std::chrono::seconds kPatience{5};

int lock_within(const fs::path& folder, std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const int lock = lock_memory_folder(folder);
    if (lock >= 0 || std::chrono::steady_clock::now() >= deadline) return lock;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void remove_orphans() {
  for (const LeftSnapshots& left : left_snapshots())
    if (left.run == LeftSnapshots::Run::gone) remove_left(left);
}

std::int64_t newest_step_in(const fs::path& folder) {
  try {
    const std::vector<std::int64_t> steps = io::steps_in(folder);
    return steps.empty() ? -1 : steps.back();
  } catch (const Error&) {
    return -1;
  }
}

}  // namespace

SnapshotFolder::SnapshotFolder(const fs::path& out, bool takes_over, bool several_hosts)
    : out_(fs::absolute(out).lexically_normal()), several_hosts_(several_hosts) {
  try {
    if (takes_over) take_over();
    if (path_.empty()) create();
    remove_orphans();
  } catch (const std::exception& error) {
    why_none_ = error.what();
  }
}

SnapshotFolder::~SnapshotFolder() {
  // Ranks that never came to train have none on any host.
  const bool may_be_elsewhere = several_hosts_ && is_there(out_ / kRunMark);
  if (!path_.empty() && !may_be_elsewhere && newest_step() < 0) remove();
  if (lock_ >= 0) close(lock_);
}

void SnapshotFolder::remove() {
  std::error_code ignored;
  if (path_.empty()) return;
  fs::remove_all(path_, ignored);
  fs::remove(out_ / kLink, ignored);
  path_.clear();
}

void SnapshotFolder::take_over() {
  const FolderLink link = read_link(out_ / kLink), own{out_.string(), link.word};
  if (link.word.empty()) return;
  if (several_hosts_ && make_folder(link.path)) write_owner(link.path, own);
  FolderLink unused;
  const fs::path left = named_by(out_, unused);
  if (left.empty()) return;
  const FolderLink owner = read_link(left / kOwner);
  const bool is_named = owner.path == own.path;
  // A rank that was killed may have left it without a word. To make another one would give up those
  // of other hosts.
  const bool is_nameless = several_hosts_ && owner.word.empty() && (owner.path.empty() || is_named);
  if (owner.word != link.word && !is_nameless) return;
  lock_ = lock_within(left, several_hosts_ ? kPatience : std::chrono::seconds(0));
  // Ranks that are still ending may have it, but not where `out_` is a copy of their run's folder.
  if (lock_ < 0 && !(several_hosts_ && is_named)) return;
  path_ = left.string();
  is_taken_over_ = true;
  tidy();
  write_owner(left, own);  // it may have been moved
}

void SnapshotFolder::create() {
  std::random_device random;
  const std::string word = fmt::format("{:08x}{:08x}", random(), random());
  const fs::path path = make_memory_folder(kKind);
  lock_ = lock_memory_folder(path);
  path_ = path.string();
  try {
    io::replace_file(out_ / kLink, text_of({path_, word}));
    write_owner(path, {out_.string(), word});
  } catch (...) {
    remove();
    throw;
  }
}

std::int64_t SnapshotFolder::newest_step() const {
  return path_.empty() ? -1 : newest_step_in(path_);
}

std::int64_t SnapshotFolder::newest_step_of(const fs::path& run) {
  FolderLink link;
  const fs::path folder = named_by(run, link);
  return folder.empty() ? -1 : newest_step_in(folder);
}

std::optional<std::int64_t> SnapshotFolder::save_to(const fs::path& checkpoints) const {
  if (newest_step() < 0) return std::nullopt;
  std::vector<std::string> damaged;
  const auto found = io::newest_checkpoint(path_, damaged);
  if (!found) return std::nullopt;
  const auto saved = io::newest_checkpoint(checkpoints, damaged);
  if (saved && io::reached(saved->state) >= io::reached(found->state)) return std::nullopt;
  io::copy_checkpoint(found->path, checkpoints);
  return found->state.step;
}

void SnapshotFolder::tidy() {
  if (lock_ < 0 && !path_.empty()) lock_ = lock_memory_folder(path_);
  try {
    if (!path_.empty()) io::remove_temporaries(path_);
  } catch (const EnvironmentError&) {  // the ranks say it, if it matters
  }
}

void SnapshotFolder::clear() {
  tidy();
  if (!path_.empty()) io::remove_checkpoints(path_);
}

RankSnapshotFolder::RankSnapshotFolder(const std::string& path, const fs::path& out) : path_(path) {
  if (!is_memory_folder(path_, kKind)) return;
  const bool is_first = make_folder(path_);
  if (!io::is_private(path_)) return;
  lock_ = lock_memory_folder(path_);
  // The next supervisor may be on this host. The run may have been moved.
  FolderLink owner = read_link(out / SnapshotFolder::kLink);
  const bool is_named = owner.path == path_.string();
  if (!is_first && (lock_ < 0 || !is_named)) return;
  try {
    if (!is_named) owner.word.clear();
    owner.path = fs::absolute(out).lexically_normal().string();
    write_owner(path_, owner);
    remove_orphans();
  } catch (const std::exception&) {  // it does not say whose it is, and whoever looks keeps it
  }
}

RankSnapshotFolder::~RankSnapshotFolder() {
  // Ranks of the start before may have held it, or others that have ended since.
  if (lock_ < 0 && is_memory_folder(path_, kKind)) lock_ = lock_memory_folder(path_);
  if (lock_ < 0) return;
  std::error_code ignored;
  if (is_saved_ || newest_step_in(path_) < 0) fs::remove_all(path_, ignored);
  close(lock_);
}

std::vector<LeftSnapshots> left_snapshots() {
  std::vector<LeftSnapshots> all;
  for (const fs::path& folder : memory_folders(kKind)) {
    if (!io::is_private(folder)) continue;
    const int lock = lock_memory_folder(folder);
    if (lock < 0) continue;
    const fs::path out = read_link(folder / kOwner).path;
    all.push_back({folder, out, run_of(folder, out), newest_step_in(folder), io::bytes_in(folder)});
    close(lock);
  }
  std::ranges::sort(all, {}, &LeftSnapshots::folder);
  return all;
}

bool remove_left(const LeftSnapshots& left) {
  const int lock = lock_memory_folder(left.folder);
  if (lock < 0) return false;
  std::error_code ignored;
  fs::remove_all(left.folder, ignored);
  close(lock);
  return true;
}

}  // namespace lockstep
