// SPDX-License-Identifier: Apache-2.0
#include "core/data/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/error.h"

namespace lockstep::data {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  LOCKSTEP_CHECK(descriptor >= 0, DataError, "{}: {}", path, std::strerror(errno));
  struct stat status {};
  void* data = MAP_FAILED;
  int error = fstat(descriptor, &status) == 0 ? 0 : errno;
  const bool regular = error == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
  if (regular) {
    data = mmap(nullptr, std::size_t(status.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) error = errno;
  }
  close(descriptor);
  LOCKSTEP_CHECK(error == 0, DataError, "{}: {}", path, std::strerror(error));
  LOCKSTEP_CHECK(regular, DataError, "{}: expected a regular file that is not empty", path);
  data_ = static_cast<const std::byte*>(data);
  size_ = std::size_t(status.st_size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace lockstep::data
