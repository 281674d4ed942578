// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// Changes to folders that outlast a power cut. Every failure throws EnvironmentError naming the
/// path, what was done with it and the system's reason.
namespace lockstep::io {

/// Throws that error for the system's `code`, with a hint that fits it.
[[noreturn]] void fail(const std::filesystem::path& path, const std::string& action, int code);

/// fsync of an open file or folder; never tried again where it fails.
void sync(const std::filesystem::path& path, int descriptor);

/// True for anything of that name, a link that leads nowhere too.
bool name_exists(const std::filesystem::path& path);
/// Names in a folder, in no order; none where it does not exist.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// Whether `folder` is one, no link, of this user, that no other user can read or write.
bool is_private(const std::filesystem::path& folder);
/// Bytes of all files in `folder` and in the folders in it; 0 where there is none.
std::uint64_t bytes_in(const std::filesystem::path& folder);

/// Creates what is missing of the path, each level synced into the one above.
void create_folders(const std::filesystem::path& folder);
/// Creates one folder, which must not exist. Not synced.
void create_folder(const std::filesystem::path& folder);
/// Makes it permanent which names `folder` holds.
void sync_folder(const std::filesystem::path& folder);

/// Gives the file `temporary` the name `to` next to it, permanently. What has that name is written
/// over with `replace`, and otherwise is an error, links too. Where it fails, `temporary` is
/// removed.
void put_in_place(const std::filesystem::path& temporary,
                  const std::filesystem::path& to,
                  bool replace);

/// These three are permanent once the folder that holds the names is synced.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
/// Exchanges two names in one step; false where kernel or file system cannot.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);
/// Removes a file, or a folder with all it holds; nothing where there is none.
void remove_tree(const std::filesystem::path& path);

}  // namespace lockstep::io
