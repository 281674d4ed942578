// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lockstep::io {

/// Parses JSON in which no object holds a key twice and nothing lies more than `max_depth` levels
/// deep. Throws DataError starting with `where`.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth);

}  // namespace lockstep::io
