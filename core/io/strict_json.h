// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lockstep::io {

/// Parses JSON in which no object holds a key twice and nothing lies more than `max_depth` levels
/// deep. A value costs many times its text in memory: all of them together may take 48 MiB more
/// than the file of `file_bytes` (at least the text) that they come from. Throws DataError starting
/// with `where`.
nlohmann::json parse_strict_json(std::string_view text,
                                 const std::string& where,
                                 int max_depth,
                                 std::uint64_t file_bytes = 0);

}  // namespace lockstep::io
