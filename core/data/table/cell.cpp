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
  if (status == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  return number;
}

std::optional<std::int64_t> to_whole(std::string_view field) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const std::optional<double> number = to_number(field);
  if (!number) return std::nullopt;
  if (field.starts_with('+')) field.remove_prefix(1);
  std::int64_t whole = 0;
  const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), whole);
  if (status == std::errc{} && end == field.data() + field.size()) return whole;
  if (!(std::abs(*number) < kExact) || *number != std::floor(*number)) return std::nullopt;
  return std::int64_t(*number);
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
