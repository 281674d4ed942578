// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// What `path` is, with links resolved; not_found where nothing does. Throws DataError naming
/// `path` where the file system cannot say (EIO, no permission): an error is not an absence.
std::filesystem::file_type file_kind(const std::filesystem::path& path);

/// These three throw as file_kind() does.
bool is_there(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// What to do where reading failed with the system's `code`; never empty.
std::string read_hint(int code);

}  // namespace lockstep
