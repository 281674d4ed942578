// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep {

/// What is done to files and folders.
enum class FileOperation : std::uint8_t { create, open, write, sync, make_folder, rename, remove };
std::string_view name_of(FileOperation operation);

/// Is notified of every change that this library makes to files and folders, before it is made, on
/// the thread that makes it: so that a simulated rank may die there, and storage may lose bytes.
class FileProbe {
 public:
  virtual ~FileProbe() = default;
  /// This thread saves for `rank` from now on.
  virtual void begin_save(int rank) = 0;
  /// May not return. False: what is to be written is lost without an error.
  virtual bool before(FileOperation operation, const std::filesystem::path& path) = 0;
};

/// Null, as at the start: none. While no thread writes; `probe` outlives its use.
void set_file_probe(FileProbe* probe);

/// Tells the probe. False for a write that is to be left undone.
bool tell_probe(FileOperation operation, const std::filesystem::path& path);
void tell_probe_of_save(int rank);

}  // namespace lockstep
