// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_reader.h"

namespace lockstep {

/// Where the bytes of an entry lie in the file.
struct ZipEntry {
  std::uint64_t offset = 0, bytes = 0;
  std::uint64_t stored_bytes = 0;  ///< in the file; `bytes`, unless it is deflated
  std::uint32_t crc32 = 0;         ///< that the directory says; some writers leave it 0
  bool is_deflated = false;
};

/// The directory of a zip file: of torch.save(), whose entries are stored as they are, or of
/// numpy.savez_compressed(); with zip64 where a file has 4 GiB and more. A file is checked as far
/// as it is read: its directory at once, an entry when it is asked for. Not checked here are
/// checksums (PyTorch may write files without: torch.serialization.set_crc32_options), which who
/// inflates an entry compares with ZipEntry::crc32, whether entries overlap, and what the header in
/// front of an entry says of its name and size.
class ZipReader {
 public:
  /// Throws DataError naming the file: no directory at its end (truncated); one that lies outside
  /// of the file, is malformed, or has more than 2^18 entries or 64 MiB; a stored entry with two
  /// sizes; names that repeat. `file` must outlive this.
  explicit ZipReader(const FileReader& file);

  const FileReader& file() const { return file_; }
  /// Of all entries, ascending.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return directory_.contains(name); }
  /// The one name that ends in `suffix` and has no other folder than that in front of it; empty
  /// where there is none. Throws DataError: there are several.
  std::string find_ending(std::string_view suffix) const;
  /// Throws DataError: there is none, it is encrypted or compressed otherwise than by deflate, it
  /// does not begin with a header of an entry, or its bytes lie outside of the file.
  ZipEntry entry(std::string_view name) const;
  /// The same of one that must be stored as it is. Throws DataError where it is compressed.
  ZipEntry stored_entry(std::string_view name) const;
  /// The whole of a small entry. Throws DataError as stored_entry() does, and where it has more
  /// bytes.
  std::string read_text(std::string_view name, std::uint64_t max_bytes) const;

 private:
  struct Listed {
    std::uint64_t header = 0, bytes = 0, stored_bytes = 0;
    std::uint32_t crc32 = 0;
    std::uint16_t flags = 0, method = 0;
  };
  struct Directory {
    std::uint64_t offset = 0, bytes = 0, entries = 0;
  };
  Directory find_directory() const;
  Directory find_directory64(std::uint64_t end_record) const;
  void parse(const Directory& directory);
  void add(std::span<const std::byte> header);

  const FileReader& file_;
  std::map<std::string, Listed, std::less<>> directory_;
};

}  // namespace lockstep
