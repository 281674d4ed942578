// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/document.h"

#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "core/base/check.h"
#include "core/base/text/number_format.h"
#include "launcher/processes/host_facts.h"
#include "launcher/report/output.h"
#include "launcher/report/page_files.h"

namespace lockstep::report {
namespace {

constexpr std::size_t kMaxTextBytes = 2000;

/// Cuts a text that no screen shows, and replaces control characters. dump() replaces what is not
/// valid UTF-8.
std::string safe_text(std::string_view text) {
  std::size_t end = text.size();
  if (end > kMaxTextBytes) {
    end = kMaxTextBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  }
  std::string result;
  for (const char character : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(character);
    const bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    if (is_control)
      result += "\xef\xbf\xbd";
    else
      result += character;
  }
  if (end < text.size()) result += fmt::format("... ({} bytes more)", text.size() - end);
  return result;
}

void make_texts_safe(Json& value) {
  if (value.is_string()) {
    value = safe_text(value.get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (Json& element : value) make_texts_safe(element);
  }
}

using PageParts = std::vector<std::pair<std::string_view, std::string_view>>;

/// `page` with each "{{name}}" replaced by the part of that name, which is not searched itself.
std::string fill(std::string_view page, const PageParts& parts) {
  std::string result;
  for (;;) {
    const std::size_t begin = page.find("{{");
    const std::size_t end = page.find("}}", begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) break;
    result += page.substr(0, begin);
    const std::string_view name = page.substr(begin + 2, end - begin - 2);
    bool known = false;
    for (const auto& [part, text] : parts)
      if (part == name) {
        result += text;
        known = true;
      }
    LOCKSTEP_CHECK(known, Error, "the page's template names an unknown part '{}'", name);
    page.remove_prefix(end + 2);
  }
  result += page;
  return result;
}

}  // namespace

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return "bytes";
    case Unit::percent:
      return "percent";
    case Unit::plain:
      break;
  }
  return "plain";
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

std::string format_value(double value, Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return format_bytes(value);
    case Unit::percent:
      return fmt::format("{:.4g}%", 100 * value);
    case Unit::plain:
      break;
  }
  return format_number(value);
}

Json block_of(const Table& table) {
  return {{"kind", "table"},
          {"caption", table.caption},
          {"cells", table.cells == Table::Cells::numbers ? "numbers" : "words"},
          {"header", table.header},
          {"rows", table.rows}};
}

Json paragraph(std::string text, std::string_view style) {
  return {{"kind", "paragraph"}, {"style", style}, {"text", std::move(text)}};
}

Json heading(std::string text) { return {{"kind", "heading"}, {"text", std::move(text)}}; }

Json details(std::string summary, Json blocks) {
  return {{"kind", "details"}, {"summary", std::move(summary)}, {"blocks", std::move(blocks)}};
}

Json charts_block(Json charts) {
  if (charts.empty()) return nullptr;
  return {{"kind", "charts"}, {"charts", std::move(charts)}};
}

void append(Json& blocks, Json block) {
  if (block.is_array())
    for (Json& one : block) blocks.push_back(std::move(one));
  else if (!block.is_null())
    blocks.push_back(std::move(block));
}

Json document_of(std::string title, Json sections) {
  return {{"version", 1},
          {"lockstep", lockstep_version()},
          {"title", std::move(title)},
          {"sections", std::move(sections)}};
}

std::string safe_json(Json document) {
  make_texts_safe(document);
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size());
  for (const char character : text) {
    if (character == '<')  // nowhere but in strings
      result += "\\u003c";
    else
      result += character;
  }
  return result;
}

std::string html_page(Json document) {
  const std::string data = safe_json(std::move(document));
  return fill(kPageHtml,
              {{"generator", kPageMark},
               {"style", kPageCss},
               {"data", data},
               {"library", kChartLibrary},
               {"chart_style", kChartStyleJs},
               {"charts", kChartsJs},
               {"timeline", kTimelineJs},
               {"page", kPageJs}});
}

}  // namespace lockstep::report
