// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/csv_field.h"

#include <charconv>

namespace lockstep {
namespace {

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool looks_like_formula(std::string_view text) {
  return !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos &&
         !is_number(text);
}

}  // namespace

std::string quoted_csv_field(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
}

std::string csv_field(std::string_view text) {
  const bool plain = text.find_first_of(",\"\r\n") == std::string_view::npos;
  return plain ? std::string(text) : quoted_csv_field(text);
}

std::string csv_name(std::string_view text) {
  return csv_field(looks_like_formula(text) ? "'" + std::string(text) : std::string(text));
}

}  // namespace lockstep
