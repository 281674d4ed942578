// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

/// Throws DataError: reading `file` failed with the system's `code`.
[[noreturn]] void cannot_read(const std::string& file, int code);

/// Bytes that any one file of a data set may occupy in memory.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

/// Size of `file` in bytes. `hint` tells what to do where it is not there.
/// Throws DataError: missing, not a regular file (a folder, a pipe), not readable.
std::uint64_t input_file_size(const std::string& file, const std::string& hint);

/// The whole of a text file. Throws DataError as input_file_size() does, and where the file is
/// larger than kMaxFileBytes or reading fails.
std::string read_text_file(const std::string& file, const std::string& hint);

/// Reads the whole of `file` into `buffer`, which keeps its memory; the result is the part of it
/// that was filled. Never waits for a pipe or device. Throws as read_text_file() does.
std::span<const std::byte> read_bytes(const std::string& file,
                                      std::vector<std::byte>& buffer,
                                      const std::string& hint);

/// FNV-1a over 8-byte words (the rest by bytes): tells contents apart, resists no attacker.
std::uint64_t content_hash(const void* data, std::size_t bytes, std::uint64_t seed = 0);

}  // namespace lockstep::data
