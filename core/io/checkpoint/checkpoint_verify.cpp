// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/sha256.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/checkpoint/checkpoint_state.h"
#include "core/io/checkpoint/manifest.h"
#include "core/io/folder.h"

namespace lockstep::io {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kHashedAtOnceBytes = std::size_t{1} << 20;
constexpr const char* kDamageHint =
    "`resume` auto takes the newest checkpoint that is whole; the disk may be failing";

[[noreturn]] void refuse(const std::string& message) { throw DataError(message, kDamageHint); }

/// A plain file open for reading: neither a link, nor a folder, nor anything that could block.
class InputFile {
 public:
  explicit InputFile(const fs::path& path) : name_(path.string()) {
    do {
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0 && errno == ELOOP)
      refuse(as_written(name_) + ": is a symbolic link, not a file");
    if (descriptor_ < 0 && errno == ENOENT) refuse(as_written(name_) + ": is missing");
    if (descriptor_ < 0 && errno == EIO) refuse(reason("cannot open"));
    if (descriptor_ < 0) fail(path, "cannot open", errno);  // which is not damage
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      const int code = errno;
      const std::string why = reason("cannot read its size");
      ::close(descriptor_);
      if (code != EIO) fail(path, "cannot read its size", code);  // which is not damage
      refuse(why);
    }
    if (!S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      refuse(as_written(name_) + ": is not a file");
    }
    bytes_ = std::uint64_t(status.st_size);
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  std::uint64_t bytes() const { return bytes_; }

  /// The next bytes, all of them.
  void read(std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t got = ::read(descriptor_, to.data(), to.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EIO) refuse(reason("cannot read"));
      if (got < 0) fail(name_, "cannot read", errno);
      if (got == 0) refuse(as_written(name_) + ": became shorter while it was read");
      to = to.subspan(std::size_t(got));
    }
  }
  std::string read_text() const {
    if (bytes_ > kMaxTextBytes)
      refuse(fmt::format("{}: has {} bytes, where at most {} are allowed",
                         as_written(name_),
                         bytes_,
                         kMaxTextBytes));
    std::string text(std::size_t(bytes_), '\0');
    read(std::as_writable_bytes(std::span(text)));
    return text;
  }

 private:
  std::string reason(const char* action) const {
    return fmt::format("{}: {}: {}", name_, action, std::generic_category().message(errno));
  }

  std::string name_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

std::string part_name(const ManifestPart& part) {
  return part.tensor.empty() ? "the header" : fmt::format("tensor '{}'", part.tensor);
}

void check_size(const InputFile& file, const ManifestFile& expected) {
  if (file.bytes() == expected.bytes) return;
  std::string where;
  if (file.bytes() < expected.bytes)
    for (const ManifestPart& part : expected.parts)
      if (part.end > file.bytes()) {
        where = fmt::format("; it ends inside {}", part_name(part));
        break;
      }
  refuse(fmt::format("{}: has {} bytes, {} were written{}",
                     as_written(file.name()),
                     file.bytes(),
                     expected.bytes,
                     where));
}

void check_bytes(const InputFile& file, const ManifestFile& expected, int version) {
  std::vector<std::byte> buffer(
      std::size_t(std::min<std::uint64_t>(kHashedAtOnceBytes, expected.bytes)));
  Sha256 hash;
  std::uint64_t done = 0;
  const auto advance_to = [&](std::uint64_t end) {
    while (done < end) {
      const auto chunk =
          std::span(buffer).first(std::size_t(std::min<std::uint64_t>(buffer.size(), end - done)));
      file.read(chunk);
      hash.update(chunk);
      done += chunk.size();
    }
  };
  for (const ManifestPart& part : expected.parts) {
    const std::uint64_t begin = done;
    if (version > 1) hash = Sha256();
    advance_to(part.end);
    if (hash.hex() != part.sha256)
      refuse(fmt::format("{}: {} is damaged (bytes {} to {})",
                         as_written(file.name()),
                         part_name(part),
                         begin,
                         part.end));
  }
  if (expected.sha256.empty()) return;  // the parts cover it
  advance_to(expected.bytes);
  if (const std::string digest = hash.hex(); digest != expected.sha256)
    refuse(fmt::format("{}: is damaged: its SHA-256 is {}, {} was written",
                       as_written(file.name()),
                       digest,
                       expected.sha256));
}

/// Hashes the very bytes that it parses.
CheckpointState read_state(const InputFile& file, const ManifestFile& expected) {
  const std::string text = file.read_text();
  if (const std::string digest = sha256_of(text); digest != expected.sha256)
    refuse(fmt::format("{}: is damaged: its SHA-256 is {}, {} was written",
                       as_written(file.name()),
                       digest,
                       expected.sha256));
  return parse_state(file.name(), text);
}

std::string read_manifest(const fs::path& checkpoint) {
  const std::string name = checkpoint.string();
  std::error_code error;
  const fs::file_status folder = fs::status(checkpoint, error);
  LOCKSTEP_CHECK(folder.type() != fs::file_type::not_found,
                 DataError,
                 "{}: is not a checkpoint: it does not exist",
                 as_written(name));
  if (error) fail(checkpoint, "cannot be read", error.value());
  LOCKSTEP_CHECK(fs::is_directory(folder),
                 DataError,
                 "{}: is not a checkpoint: it is not a folder",
                 as_written(name));
  const fs::path manifest = checkpoint / kManifestFile;
  if (fs::symlink_status(manifest, error).type() == fs::file_type::not_found)
    throw DataError(
        fmt::format("{}: is not a checkpoint: it holds no {}", as_written(name), kManifestFile),
        "a checkpoint is a folder such as RUN/checkpoints/step_00001000");
  return InputFile(manifest).read_text();
}

}  // namespace

CheckpointState verify_checkpoint(const fs::path& checkpoint) {
  const std::string manifest_name = (checkpoint / kManifestFile).string();
  const Manifest manifest = parse_manifest(manifest_name, read_manifest(checkpoint));
  for (const auto& [name, expected] : manifest.files)  // quick, so before all hashing
    check_size(InputFile(checkpoint / name), expected);
  CheckpointState state;
  for (const auto& [name, expected] : manifest.files) {
    const InputFile file(checkpoint / name);
    check_size(file, expected);
    if (name == kStateFile) {
      state = read_state(file, expected);
    } else {
      check_bytes(file, expected, manifest.version);
    }
  }
  LOCKSTEP_CHECK(state.step == manifest.step,
                 DataError,
                 "{}: is of step {}, {} of step {}",
                 as_written(manifest_name),
                 manifest.step,
                 kStateFile,
                 state.step);
  return state;
}

std::string checkpoint_digest(const fs::path& checkpoint) {
  return sha256_of(read_manifest(checkpoint));
}

}  // namespace lockstep::io
