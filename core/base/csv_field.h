// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text` in double quotes, its own ones doubled, as any field of a CSV file may stand (RFC 4180).
inline std::string quoted_csv_field(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
}

/// The same only where `text` holds a comma, a quote or a line break; `text` itself otherwise.
inline std::string csv_field(std::string_view text) {
  const bool plain = text.find_first_of(",\"\r\n") == std::string_view::npos;
  return plain ? std::string(text) : quoted_csv_field(text);
}

}  // namespace lockstep
