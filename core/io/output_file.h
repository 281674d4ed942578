// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// Over bytes that were written.
  void write_again(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Flushes to the disk (fsync) and closes. What a failed fsync has lost stays lost: a second try
  /// would succeed without the bytes being there, so the file is given up.
  void finish();

 private:
  void remove() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool is_file_ = false;
};

/// A file of known size, of which several processes write disjoint ranges at once. Every failure
/// throws EnvironmentError naming the file, what was done with it and the system's reason.
class PlacedFile {
 public:
  /// Creates it, which must not exist. The disk's space for `bytes` is taken where the file system
  /// can do that, so that it lacks none later.
  static PlacedFile create(const std::filesystem::path& path, std::uint64_t bytes);
  /// Opens one that another process has created. A symbolic link is an error.
  static PlacedFile open(const std::filesystem::path& path);
  PlacedFile(PlacedFile&& other) noexcept;
  PlacedFile& operator=(PlacedFile&&) = delete;
  /// Closes it. The file stays.
  ~PlacedFile();

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Flushes what was written to the disk (fsync) and closes. What a failed fsync has lost stays
  /// lost: a second try would succeed without the bytes being there.
  void finish();

 private:
  PlacedFile(std::filesystem::path path, int how);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Writes a whole file, synced.
void write_file(const std::filesystem::path& path, std::string_view text);

/// The same under a temporary name first, PATH.tmp, so that under `path` there is a whole file or
/// the one before it. Throws EnvironmentError.
void replace_file(const std::filesystem::path& path, std::string_view text);

}  // namespace lockstep::io
