// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Folders of this program in /dev/shm, whose files are memory: lockstep-KIND-XXXXXX.
namespace lockstep {

inline constexpr const char* kMemoryFileSystem = "/dev/shm";

/// Whether `path` is the name of such a folder.
bool is_memory_folder(const std::filesystem::path& path, std::string_view kind);
/// All that are there; none where there is no such file system.
std::vector<std::filesystem::path> memory_folders(std::string_view kind);
/// Makes one that this user alone can read. Throws EnvironmentError with the system's reason.
std::filesystem::path make_memory_folder(std::string_view kind);
/// A descriptor that locks the folder for as long as it is open; -1: another process has the lock,
/// or the folder cannot be opened.
int lock_memory_folder(const std::filesystem::path& folder);

}  // namespace lockstep
