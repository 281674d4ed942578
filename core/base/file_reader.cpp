// SPDX-License-Identifier: Apache-2.0
#include "core/base/file_reader.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"

namespace lockstep {
namespace {

[[noreturn]] void fail(const std::string& what, const char* action, int code) {
  throw DataError(fmt::format("{}: {}: {}", as_written(what), action, std::strerror(code)),
                  read_hint(code));
}

}  // namespace

FileReader::FileReader(const std::filesystem::path& path) : path_(path) {
  const std::string file = path.string();
  do {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail(file, "cannot open", errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    const int code = errno;
    ::close(descriptor_);
    fail(file, "cannot read its size", code);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw DataError(file + ": not a file: expected a regular file, no folder, pipe or device");
  }
  bytes_ = std::uint64_t(status.st_size);
}

FileReader::~FileReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_) {}

void FileReader::read(const std::string& what,
                      std::uint64_t offset,
                      std::span<std::byte> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got =
        ::pread(descriptor_, to.data() + done, to.size() - done, off_t(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(what, "cannot read", errno);
    LOCKSTEP_CHECK(
        got > 0, DataError, "{}: ends {} bytes early", as_written(what), to.size() - done);
    done += std::size_t(got);
  }
}

}  // namespace lockstep
