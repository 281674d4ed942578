// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

/// The data of a page as JSON, and the page. Each element of a section is a block, an object whose
/// "kind" tells page/page.js how to show it. Texts are as files have them: html_page() makes them
/// safe.
namespace lockstep::report {

using Json = nlohmann::ordered_json;

/// What a quantity is measured in; the page formats ticks and values accordingly.
enum class Unit { plain, bytes, percent };
/// "plain"
std::string_view name_of(Unit unit);

/// "1,234,567", "0.01234", "1.2e-07": four significant digits or all of an integer's; "-" where it
/// is not finite.
std::string format_number(double value);
/// A share as "41%", "0.4%".
std::string format_percent(double share);
/// A value in a table.
std::string format_value(double value, Unit unit);

/// A table with a caption; the first column are row headers.
struct Table {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  enum class Cells { numbers, words } cells = Cells::numbers;  ///< right-aligned, or left-aligned
};
Json block_of(const Table& table);

/// A paragraph; `style` is "plain", "quiet", "note" or "state".
Json paragraph(std::string text, std::string_view style = "plain");
/// The heading of a part of a section.
Json heading(std::string text);
/// Blocks that the reader opens.
Json details(std::string summary, Json blocks);
/// Figures side by side; null where `charts` is empty.
Json charts_block(Json charts);
/// Appends a block, or all blocks of an array; of null, nothing.
void append(Json& blocks, Json block);

/// A page's document. A section is {"id", "heading", "blocks"}.
Json document_of(std::string title, Json sections);

/// The document as JSON text: strings are valid UTF-8 without control characters, a far too long
/// one is cut, and `<` is always \u003c, so that no text ends the element that holds it.
std::string safe_json(Json document);

/// One HTML file that shows `document` and needs no other file; kPageMark is in its first kilobyte.
std::string html_page(Json document);

}  // namespace lockstep::report
