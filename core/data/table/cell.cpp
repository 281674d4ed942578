// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/cell.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace lockstep::data {
namespace {

bool equal_without_case(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? char(a - 'A' + 'a') : a) == b;
         });
}

constexpr double kExact = 9007199254740992.0;  // 2^53

/// Whether a number that no double can hold is too large, and not too near to 0.
bool is_too_large(std::string_view number) {
  constexpr std::int64_t kMaxDigits = std::int64_t{1} << 50;
  const auto mark = number.find_first_of("eE");
  std::int64_t exponent = 0;
  if (mark != number.npos) {
    std::string_view text = number.substr(mark + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto status = std::from_chars(text.data(), text.data() + text.size(), exponent).ec;
    if (status != std::errc{} || std::abs(exponent) > kMaxDigits) return !text.starts_with('-');
  }
  const std::string_view digits = number.substr(0, mark);
  const auto first = digits.find_first_of("123456789");
  const auto point = std::min(digits.find('.'), digits.size());
  return std::int64_t(point) - std::int64_t(first) + exponent > 0;
}

std::string_view without_sign(std::string_view field) {
  if (field.starts_with('+') || field.starts_with('-')) field.remove_prefix(1);
  return field;
}

}  // namespace

bool is_missing(std::string_view field) {
  if (field.empty() || field == "?" || field == "NA") return true;
  return equal_without_case(field, "nan") || equal_without_case(field, "null");
}

std::optional<double> to_number(std::string_view field) {
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  double number = 0;
  const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), number);
  if (status == std::errc::invalid_argument || end != field.data() + field.size())
    return std::nullopt;
  if (status != std::errc::result_out_of_range) return number;
  if (!is_too_large(field)) return 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return field.starts_with('-') ? -kInfinity : kInfinity;
}

bool is_number_word(std::string_view field) {
  if (!to_number(field)) return false;
  const char first = without_sign(field)[0];
  return first != '.' && (first < '0' || first > '9');
}

std::optional<std::int64_t> to_whole(std::string_view field) {
  const std::optional<double> number = to_number(field);
  if (!number) return std::nullopt;
  if (field.starts_with('+')) field.remove_prefix(1);
  std::int64_t whole = 0;
  const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), whole);
  if (status == std::errc{} && end == field.data() + field.size()) return whole;
  if (!(std::abs(*number) < kExact) || *number != std::floor(*number)) return std::nullopt;
  return std::int64_t(*number);
}

bool is_past_whole(std::string_view field) {
  const std::optional<double> number = to_number(field);
  return number && !is_number_word(field) && !to_whole(field) && std::abs(*number) >= kExact;
}

std::optional<double> category_number(std::string_view field) {
  const std::optional<double> number = to_number(field);
  if (!number || !(std::abs(*number) < kExact)) return std::nullopt;
  const std::string_view digits = without_sign(field);
  const bool is_code =
      digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
  if (is_code) return std::nullopt;
  return *number == 0 ? 0.0 : *number;  // -0 is 0
}

bool has_decimal_comma(std::string_view field) {
  const auto comma = field.find(',');
  if (comma == field.npos || comma != field.rfind(',') || comma + 1 == field.size()) return false;
  std::string with_point(field);
  with_point[comma] = '.';
  return to_number(with_point).has_value();
}

std::string shown(std::string_view field) {
  constexpr std::size_t kMaxShown = 60;
  if (field.empty()) return "an empty field";
  if (field.size() <= kMaxShown) return fmt::format("'{}'", field);
  return fmt::format("'{}...' of {} bytes", field.substr(0, kMaxShown), field.size());
}

}  // namespace lockstep::data
