// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::report {

/// `text` as HTML shows it, in elements and in quoted attributes. What is not UTF-8, and control
/// characters, become U+FFFD.
std::string escaped(std::string_view text);
/// The same; of what no screen shows, the beginning stands for it.
std::string escaped_start(std::string_view text);

/// "1,234,567", "0.01234", "1.2e-07": four significant digits or all of a whole number's; "-"
/// where it is not finite.
std::string format_number(double value);
/// A share as "41%", "0.4%".
std::string format_percent(double share);

/// A table with a caption; the first column are row headers. Cells are text: they get escaped, and
/// of one that is far too long the beginning stands for it.
struct Table {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  enum class Cells { numbers, words } cells = Cells::numbers;  ///< to the right, or to the left
};
/// In a frame that scrolls by itself and that the keyboard reaches.
std::string html_of(const Table& table);

/// `<details>` with `summary`, closed. `content` is HTML.
std::string details(std::string_view summary, std::string_view content);
/// `<p>` of text.
std::string paragraph(std::string_view text);

}  // namespace lockstep::report
