// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace lockstep {

/// A regular file that is read at any place. Not thread-safe to move, safe to read from several
/// threads.
class FileReader {
 public:
  /// Throws DataError naming the file: missing, unreadable, a folder, a pipe or a device.
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;
  FileReader(const FileReader&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// When it was opened.
  std::uint64_t bytes() const { return bytes_; }
  /// Fills `to` with what lies at `offset`. Throws DataError starting with `what`: the file ends
  /// before, or cannot be read.
  void read(const std::string& what, std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace lockstep
