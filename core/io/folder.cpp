// SPDX-License-Identifier: Apache-2.0
#include "core/io/folder.h"

#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "core/base/parameter_names.h"
#include "core/host/file_probe.h"
#include "lockstep/error.h"

namespace lockstep::io {
namespace fs = std::filesystem;
namespace {

const char* hint_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "free space on this file system, or choose another place with `out` DIR";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a writable place with `out` DIR";
    case ELOOP:
      return "remove the link, or name the folder that it leads to";
    case EIO:
      return "the disk or the connection to it fails: look into the kernel's log";
    default:
      return "check the folder's permissions and the free space";
  }
}

/// 0 or errno.
int sync_code(int descriptor) {
  while (::fsync(descriptor) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

/// 0 or errno.
int renamed(const fs::path& from, const fs::path& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

/// 0 or errno: EEXIST where something has the name `to`.
int moved_to_free_name(const fs::path& from, const fs::path& to) {
  const int code = renamed(from, to, RENAME_NOREPLACE);
  if (code != EINVAL && code != ENOSYS && code != EOPNOTSUPP) return code;
  // In two steps where this kernel or file system does not do it in one.
  if (::link(from.c_str(), to.c_str()) != 0) return errno;
  ::unlink(from.c_str());  // what stays under the old name does no harm
  return 0;
}

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

void fail(const fs::path& path, const std::string& action, int code) {
  throw EnvironmentError(
      fmt::format("{}: {}: {}",
                  as_written(path.string()),
                  as_written(action),
                  code == ELOOP ? "it is a symbolic link, or leads through a circle of them"
                                : std::generic_category().message(code)),
      hint_for(code));
}

void sync(const fs::path& path, int descriptor) {
  tell_probe(FileOperation::sync, path);
  if (const int code = sync_code(descriptor); code != 0)
    fail(path, "cannot flush to the disk", code);
}

bool name_exists(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT) fail(path, "cannot look it up", errno);
  return false;
}

// Not by fs::directory_iterator, which ends the process where it finds no memory (GCC 12).
std::vector<std::string> names_in(const fs::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), &::closedir);
  if (stream == nullptr && errno == ENOENT) return {};
  if (stream == nullptr) fail(folder, "cannot read the folder", errno);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) fail(folder, "cannot read the folder", errno);
    if (entry == nullptr) return names;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

bool is_private(const fs::path& folder) {
  struct stat status {};
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  for (const std::string& name : names_in(folder)) {
    struct stat status {};
    const fs::path path = folder / name;
    if (::lstat(path.c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) bytes += bytes_in(path);
    if (S_ISREG(status.st_mode)) bytes += std::uint64_t(status.st_size);
  }
  return bytes;
}

void create_folders(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  const fs::path parent = parent_of(folder);
  if (parent != folder) create_folders(parent);
  tell_probe(FileOperation::make_folder, folder);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    const int code = errno == EEXIST ? ENOTDIR : errno;
    if (fs::is_directory(folder, error)) return;  // another process was faster
    fail(folder, "cannot create the folder", code);
  }
  sync_folder(parent);
}

void create_folder(const fs::path& folder) {
  tell_probe(FileOperation::make_folder, folder);
  if (::mkdir(folder.c_str(), 0777) != 0) fail(folder, "cannot create the folder", errno);
}

void sync_folder(const fs::path& folder) {
  tell_probe(FileOperation::sync, folder);
  int descriptor = -1;
  do {
    descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) fail(folder, "cannot open the folder", errno);
  const int code = sync_code(descriptor);
  const int close_code = ::close(descriptor) == 0 ? 0 : errno;
  // Some file systems keep folders in order by themselves and know no fsync of one.
  if (code != 0 && code != EINVAL) fail(folder, "cannot flush the folder to the disk", code);
  if (close_code != 0 && close_code != EINTR) fail(folder, "cannot close the folder", close_code);
}

void put_in_place(const fs::path& temporary, const fs::path& to, bool replace) {
  tell_probe(FileOperation::rename, temporary);
  const int code = replace ? renamed(temporary, to, 0) : moved_to_free_name(temporary, to);
  if (code != 0) {
    ::unlink(temporary.c_str());
    fail(to, "cannot create", code);
  }
  sync_folder(to.has_parent_path() ? to.parent_path() : ".");
}

void rename_path(const fs::path& from, const fs::path& to) {
  tell_probe(FileOperation::rename, from);
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail(from, fmt::format("cannot rename to {}", to.filename().string()), errno);
}

bool exchange_paths(const fs::path& a, const fs::path& b) {
  tell_probe(FileOperation::rename, a);
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
  fail(a, fmt::format("cannot exchange with {}", b.filename().string()), errno);
}

void remove_tree(const fs::path& path) {
  tell_probe(FileOperation::remove, path);
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail(path, "cannot remove", error.value());
}

}  // namespace lockstep::io
