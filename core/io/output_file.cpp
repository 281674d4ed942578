// SPDX-License-Identifier: Apache-2.0
#include "core/io/output_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/io/folder.h"

namespace lockstep::io {

OutputFile::OutputFile(const std::filesystem::path& path, IfThere if_there) : path_(path) {
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
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot write", errno);
    bytes = bytes.subspan(std::size_t(written));
  }
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
  if (is_file_) ::unlink(path_.c_str());  // a device stays
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.finish();
}

}  // namespace lockstep::io
