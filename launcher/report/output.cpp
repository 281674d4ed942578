// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/output.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <span>
#include <unistd.h>
#include <utility>

#include "core/io/folder.h"
#include "lockstep/error.h"

namespace lockstep::report {
namespace {

constexpr std::size_t kLookedAt = 1024;

/// A name that nothing has yet: a process that was killed may have left its own.
std::filesystem::path free_name_beside(const std::filesystem::path& path) {
  constexpr int kMaxTries = 100;
  std::filesystem::path name;
  for (int i = 0; i < kMaxTries; ++i) {
    name = path.string() + fmt::format(".{}.{}.tmp", getpid(), i);
    if (!io::name_exists(name)) break;
  }
  return name;
}

enum class Moved { yes, name_taken, cannot_tell };

/// Gives `from` the name `to` unless something has it; cannot_tell: this kernel or file system does
/// not do that in one step.
Moved move_to_free_name(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
    return Moved::yes;
  if (errno == EEXIST) return Moved::name_taken;
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return Moved::cannot_tell;
  io::fail(to, "cannot create", errno);
}

bool is_of_kind(const std::filesystem::path& path, const Output::Kind& kind) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // reading might wait
  std::ifstream input(path, std::ios::binary);
  std::string start(kLookedAt, '\0');
  input.read(start.data(), std::streamsize(start.size()));
  start.resize(std::size_t(input.gcount()));
  return kind.mark_is_first ? start.starts_with(kind.mark)
                            : start.find(kind.mark) != std::string::npos;
}

}  // namespace

Output::Output(std::filesystem::path path, const Kind& kind, bool force)
    : path_(std::move(path)), kind_(kind), force_(force) {
  check();
}

Output::~Output() {
  // An OutputFile removes what was not finished; one that was and could not be renamed stays.
  std::error_code ignored;
  if (file_) std::filesystem::remove(temporary_, ignored);
}

void Output::check() const {
  if (!io::name_exists(path_)) return;
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored))
    throw ConfigError(fmt::format("report: {} {} is a folder", kind_.flag, path_.string()),
                      "name a file in it");
  if (!is_of_kind(path_, kind_))
    throw ConfigError(fmt::format("report: {} {} already exists and is not a {} of lockstep report",
                                  kind_.flag,
                                  path_.string(),
                                  kind_.words),
                      "choose another file: not even --force writes over it");
  if (!force_)
    throw ConfigError(fmt::format("report: {} {} already exists", kind_.flag, path_.string()),
                      "choose another file, or write over it with --force");
}

void Output::write(std::string_view text) {
  if (!file_) {
    temporary_ = free_name_beside(path_);
    file_.emplace(temporary_, io::OutputFile::IfThere::refused);
  }
  file_->write(std::as_bytes(std::span(text)));
}

void Output::finish() {
  file_->finish();
  check();  // another program may have come in between
  const Moved moved = force_ ? Moved::cannot_tell : move_to_free_name(temporary_, path_);
  if (moved == Moved::name_taken) {
    check();
    io::fail(path_, "cannot create", EEXIST);
  }
  if (moved == Moved::cannot_tell && std::rename(temporary_.c_str(), path_.c_str()) != 0)
    io::fail(path_, "cannot create", errno);
  file_.reset();
  io::sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

}  // namespace lockstep::report
