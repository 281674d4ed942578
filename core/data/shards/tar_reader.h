// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/file_reader.h"

namespace lockstep::data {

/// A regular file in a tar.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  ///< of its content; the header's last 512 bytes lie in front of it
  std::uint64_t bytes = 0;
};

constexpr std::size_t kTarBlockBytes = 512;

/// The members of an uncompressed tar from its begin to its end: ustar (POSIX 1003.1), with long
/// names and large sizes of GNU tar and of pax. Contents are skipped. Folders, and pax headers that
/// say nothing of name or size, are not members.
class TarReader {
 public:
  /// Throws DataError naming the file: it cannot be read, is empty or compressed.
  explicit TarReader(const std::string& path);

  const FileReader& file() const { return file_; }
  /// The next member; nothing after the end mark. Throws DataError naming file and byte: a header
  /// whose sum does not fit, a name of more than 64 KiB, links and other things than files, a file
  /// that is cut off, in a member or before the end mark.
  std::optional<TarMember> next();
  /// The whole of a small member, which may have been read with its header. Throws DataError: it
  /// has more than `max_bytes`.
  std::string read_text(const TarMember& member, std::size_t max_bytes) const;

 private:
  struct Extended {
    std::string name;  // empty: the header's own
    std::optional<std::uint64_t> bytes;
  };

  void check_compression() const;
  /// The next header, or nothing at the end mark.
  std::span<const std::byte> next_header();
  void read_extension(char kind, std::uint64_t bytes, Extended& extended);
  void read_pax(const std::string& text, std::uint64_t at, Extended& extended) const;
  std::span<const std::byte> block(std::uint64_t at) const;
  [[noreturn]] void refuse(std::uint64_t at, const std::string& what) const;

  std::string path_;
  FileReader file_;
  std::uint64_t at_ = 0;  // of the next header
  // What was read last: a header, and often all of a short member and the next header.
  mutable std::array<std::byte, 4096> held_{};
  mutable std::uint64_t held_at_ = 0;
  mutable std::size_t held_bytes_ = 0;
};

/// The name in a ustar header alone, for messages: of a long one its begin.
std::string tar_header_name(std::span<const std::byte> header);

}  // namespace lockstep::data
