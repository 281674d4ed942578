// SPDX-License-Identifier: Apache-2.0
#include "core/io/output_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/host/file_probe.h"
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

void write_all_at(const std::filesystem::path& path,
                  int descriptor,
                  std::uint64_t offset,
                  std::span<const std::byte> bytes) {
  if (!tell_probe(FileOperation::write, path)) return;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor, bytes.data(), bytes.size(), off_t(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "cannot write", errno);
    bytes = bytes.subspan(std::size_t(written));
    offset += std::uint64_t(written);
  }
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, IfThere if_there) : path_(path) {
  tell_probe(FileOperation::create, path);
  // Another user may have put a link into a folder that others can write to.
  const int how = O_NOFOLLOW | (if_there == IfThere::emptied ? O_TRUNC : O_EXCL);
  do {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail(path_, "cannot create", errno);
  struct stat status {};
  is_file_ = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  remove();
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (!tell_probe(FileOperation::write, path_)) return;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot write", errno);
    bytes = bytes.subspan(std::size_t(written));
  }
}

void OutputFile::write_again(std::uint64_t offset, std::span<const std::byte> bytes) {
  write_all_at(path_, descriptor_, offset, bytes);
}

void OutputFile::finish() {
  sync(path_, descriptor_);
  // Interrupted, the descriptor is closed all the same, and the bytes are on the disk.
  if (::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR) return;
  const int error = errno;
  remove();
  fail(path_, "cannot close", error);
}

void OutputFile::remove() const {
  if (!is_file_) return;  // a device stays
  tell_probe(FileOperation::remove, path_);
  ::unlink(path_.c_str());
}

PlacedFile::PlacedFile(std::filesystem::path path, int how) : path_(std::move(path)) {
  tell_probe((how & O_CREAT) != 0 ? FileOperation::create : FileOperation::open, path_);
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
  write_all_at(path_, descriptor_, offset, bytes);
}

void PlacedFile::finish() {
  sync(path_, descriptor_);
  // Interrupted, the descriptor is closed all the same, and the bytes are on the disk.
  if (::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR) return;
  fail(path_, "cannot close", errno);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.finish();
}

void replace_file(const std::filesystem::path& path, std::string_view text) {
  const std::string temporary = path.string() + ".tmp";
  write_file(temporary, text);
  put_in_place(temporary, path, true);
}

}  // namespace lockstep::io
