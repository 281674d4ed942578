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
/// where it is past the largest double, 0 where it is nearer to 0 than any other double.
std::optional<double> to_number(std::string_view field);

/// Whether `field` is a word that to_number() takes for a number: inf, infinity or nan, with a sign
/// or without, in any case.
bool is_number_word(std::string_view field);

/// The whole number that `field` is, where doubles can tell it from its neighbours.
std::optional<std::int64_t> to_whole(std::string_view field);

/// Whether `field` is a number too large for doubles to tell it from its neighbours: 2^53 or more.
bool is_past_whole(std::string_view field);

/// What makes two categories one: the number that `field` is. Empty for texts, for numbers that are
/// is_past_whole(), and for those with a zero in front, as 007, which are codes.
std::optional<double> category_number(std::string_view field);

/// Whether `field` is a number with a decimal comma, as 3,14.
bool has_decimal_comma(std::string_view field);

/// `field` for messages: 'text', cut where it is long, or "an empty field".
std::string shown(std::string_view field);

}  // namespace lockstep::data
