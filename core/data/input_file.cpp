// SPDX-License-Identifier: Apache-2.0
#include "core/data/input_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/descriptor.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"

namespace lockstep::data {

namespace fs = std::filesystem;

namespace {

/// Without waiting, which opening a pipe would do.
Descriptor open_to_read(const std::string& file, const std::string& hint) {
  int number = -1;
  do {
    number = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  } while (number < 0 && errno == EINTR);
  if (number >= 0) return Descriptor(number);
  const int code = errno;
  throw DataError(fmt::format("{}: cannot be read: {}", as_written(file), std::strerror(code)),
                  code == EIO ? read_hint(code) : hint);
}

}  // namespace

void cannot_read(const std::string& file, int code) {
  throw DataError(fmt::format("{}: cannot be read: {}", as_written(file), std::strerror(code)),
                  read_hint(code));
}

std::uint64_t input_file_size(const std::string& file, const std::string& hint) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found)
    throw DataError(fmt::format("{}: no such file", as_written(file)), hint);
  if (status.type() == fs::file_type::none) cannot_read(file, error.value());
  if (status.type() == fs::file_type::directory)
    throw DataError(fmt::format("{}: expected a file, got a folder", as_written(file)), hint);
  if (status.type() != fs::file_type::regular)
    throw DataError(
        fmt::format("{}: expected a regular file, got a device or pipe", as_written(file)), hint);
  const std::uint64_t bytes = fs::file_size(file, error);
  if (error) cannot_read(file, error.value());
  errno = 0;
  if (!std::ifstream(file, std::ios::binary)) cannot_read(file, errno);
  return bytes;
}

std::string read_text_file(const std::string& file, const std::string& hint) {
  const std::uint64_t bytes = input_file_size(file, hint);
  LOCKSTEP_CHECK(bytes <= kMaxFileBytes,
                 DataError,
                 "{}: expected at most {} bytes, got {}",
                 as_written(file),
                 kMaxFileBytes,
                 bytes);
  std::string text(bytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), std::streamsize(bytes));
  if (std::uint64_t(stream.gcount()) != bytes)
    throw DataError(
        fmt::format(
            "{}: expected {} bytes, could read {}", as_written(file), bytes, stream.gcount()),
        "it may have been changed while it was read, or its disk fails; see dmesg");
  return text;
}

std::span<const std::byte> read_bytes(const std::string& file,
                                      std::vector<std::byte>& buffer,
                                      const std::string& hint) {
  const Descriptor descriptor = open_to_read(file, hint);
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0) cannot_read(file, errno);
  if (!S_ISREG(status.st_mode))
    throw DataError(
        fmt::format("{}: expected a regular file, got a folder, device or pipe", as_written(file)),
        hint);
  const auto bytes = std::uint64_t(status.st_size);
  LOCKSTEP_CHECK(bytes <= kMaxFileBytes,
                 DataError,
                 "{}: expected at most {} bytes, got {}",
                 as_written(file),
                 kMaxFileBytes,
                 bytes);
  if (buffer.size() < bytes) buffer.resize(bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::read(descriptor.get(), buffer.data() + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    const int code = got < 0 ? errno : 0;
    if (got <= 0)
      throw DataError(fmt::format("{}: expected {} bytes, could read {}: {}",
                                  as_written(file),
                                  bytes,
                                  done,
                                  got < 0 ? std::strerror(code) : "the file became shorter"),
                      read_hint(code));
    done += std::size_t(got);
  }
  return {buffer.data(), bytes};
}

std::uint64_t content_hash(const void* data, std::size_t bytes, std::uint64_t seed) {
  constexpr std::uint64_t kPrime = 0x100000001b3ull;
  const auto* p = static_cast<const std::uint8_t*>(data);
  std::uint64_t h = 0xcbf29ce484222325ull ^ seed;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    h = (h ^ word) * kPrime;
    h ^= h >> 32;  // the multiplication alone never carries high bits down
  }
  for (; bytes > 0; --bytes, ++p) h = (h ^ *p) * kPrime;
  return h;
}

}  // namespace lockstep::data
