// SPDX-License-Identifier: Apache-2.0
#include "core/io/placed_file.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "core/io/folder.h"

namespace lockstep::io {
namespace {

/// 0 or errno.
int take_space(int descriptor, std::uint64_t bytes) {
  // Not posix_fallocate(), which writes into every block where the file system knows no other way.
  int code = 0;
  while ((code = ::fallocate(descriptor, 0, 0, off_t(bytes)) == 0 ? 0 : errno) == EINTR) {
  }
  if (code != EOPNOTSUPP && code != ENOSYS && code != EINVAL) return code;
  while ((code = ::ftruncate(descriptor, off_t(bytes)) == 0 ? 0 : errno) == EINTR) {
  }
  return code;
}

}  // namespace

PlacedFile::PlacedFile(std::filesystem::path path, int how) : path_(std::move(path)) {
  do {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | how, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail(path_, (how & O_CREAT) != 0 ? "cannot create" : "cannot open", errno);
}

PlacedFile::PlacedFile(PlacedFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

PlacedFile::~PlacedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

PlacedFile PlacedFile::create(const std::filesystem::path& path, std::uint64_t bytes) {
  PlacedFile file(path, O_CREAT | O_EXCL);
  if (const int code = take_space(file.descriptor_, bytes); code != 0)
    fail(path, "cannot write", code);
  return file;
}

PlacedFile PlacedFile::open(const std::filesystem::path& path) { return PlacedFile(path, 0); }

void PlacedFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), off_t(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot write", errno);
    bytes = bytes.subspan(std::size_t(written));
    offset += std::uint64_t(written);
  }
}

void PlacedFile::finish() {
  sync(path_, descriptor_);
  // Interrupted, the descriptor is closed all the same, and the bytes are on the disk.
  if (::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR) return;
  fail(path_, "cannot close", errno);
}

}  // namespace lockstep::io
