// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/html.h"

#include <cmath>
#include <fmt/format.h>

#include "core/base/number_format.h"

namespace lockstep::report {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// Bytes of the UTF-8 character that `text` begins with; 0: none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool no_character = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
  return overlong || no_character ? 0 : length;
}

constexpr std::size_t kLongestShown = 2000;

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool control = length == 1 && (first < 0x20 || first == 0x7f);
    if (control && (first == '\n' || first == '\t')) {
      result += text[0];
    } else if (length == 0 || control) {
      result += kReplacement;
    } else if (length > 1) {
      result += text.substr(0, length);
    } else {
      switch (text[0]) {
        case '&':
          result += "&amp;";
          break;
        case '<':
          result += "&lt;";
          break;
        case '>':
          result += "&gt;";
          break;
        case '"':
          result += "&quot;";
          break;
        case '\'':
          result += "&#39;";
          break;
        default:
          result += text[0];
      }
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

std::string escaped_start(std::string_view text) {
  if (text.size() <= kLongestShown) return escaped(text);
  std::size_t end = kLongestShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return escaped(text.substr(0, end)) + fmt::format("... ({} bytes more)", text.size() - end);
}

std::string format_number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return fmt::format("{:.3g}", value);
  if (value == std::floor(value) || size >= 1000) return format_count(value);
  return fmt::format("{:.4g}", value);
}

std::string format_percent(double share) {
  if (!std::isfinite(share)) return "-";
  const double percent = 100 * share;
  if (percent > 0 && percent < 0.05) return "<0.1%";
  return fmt::format("{:.{}f}%", percent, std::abs(percent) < 10 && percent != 0 ? 1 : 0);
}

std::string html_of(const Table& table) {
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"{}\">"
      "<caption>{}</caption><thead><tr>",
      escaped(table.caption),
      table.cells == Table::Cells::numbers ? "numbers" : "words",
      escaped(table.caption));
  for (const std::string& cell : table.header)
    html += fmt::format("<th scope=\"col\">{}</th>", escaped(cell));
  html += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", escaped_start(row[i]))
                     : fmt::format("<td>{}</td>", escaped_start(row[i]));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string details(std::string_view summary, std::string_view content) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", escaped(summary), content);
}

std::string paragraph(std::string_view text) { return fmt::format("<p>{}</p>\n", escaped(text)); }

}  // namespace lockstep::report
