// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace lockstep::io {

/// A file being written, which disappears unless finish() succeeds. Every failure throws
/// EnvironmentError naming the file, what was done with it and the system's reason.
class OutputFile {
 public:
  enum class IfThere { emptied, refused };
  /// Creates the file, or empties one that is there. `refused`: what is there stays as it is, and
  /// is an error. A symbolic link is an error either way.
  explicit OutputFile(const std::filesystem::path& path, IfThere if_there = IfThere::emptied);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Flushes to the disk (fsync) and closes. What a failed fsync has lost stays lost: a second try
  /// would succeed without the bytes being there, so the file is given up.
  void finish();

 private:
  void remove() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool is_file_ = false;
};

/// Writes a whole file, synced.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace lockstep::io
