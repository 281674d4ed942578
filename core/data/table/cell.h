// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data {

/// Whether a field stands for a value that is not there: empty, NA, ?, nan or null in any case.
bool is_missing(std::string_view field);

/// The number that takes up the whole of `field`; infinite or NaN where it is written so, infinite
/// where a double cannot hold it.
std::optional<double> to_number(std::string_view field);

/// The whole number that `field` is, where doubles can tell it from its neighbours.
std::optional<std::int64_t> to_whole(std::string_view field);

/// Whether `field` is a number with a decimal comma, as 3,14.
bool has_decimal_comma(std::string_view field);

/// `field` for messages: 'text', cut where it is long, or "an empty field".
std::string shown(std::string_view field);

}  // namespace lockstep::data
