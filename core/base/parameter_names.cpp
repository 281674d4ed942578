// SPDX-License-Identifier: Apache-2.0
#include "core/base/parameter_names.h"

#include <algorithm>
#include <atomic>

namespace lockstep {
namespace {

// Errors are made on every thread.
std::atomic<ParameterStyle> parameter_style = nullptr;

/// Before a backtick that begins and ends no name: a control character, which no message has.
constexpr char kMark = '\x1a';

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

/// Calls `plain` for what lies outside of names in backticks, and `name` for each of those.
template <typename Plain, typename Name>
void split(std::string_view text, const Plain& plain, const Name& name) {
  while (!text.empty()) {
    const std::size_t begin = text.find('`');
    if (begin != text.npos && begin > 0 && text[begin - 1] == kMark) {
      plain(text.substr(0, begin - 1));
      plain("`");
      text.remove_prefix(begin + 1);
      continue;
    }
    const std::size_t end = begin == text.npos ? text.npos : text.find('`', begin + 1);
    if (end == text.npos) return plain(text);
    const std::string_view inner = text.substr(begin + 1, end - begin - 1);
    if (!is_name(inner)) {
      plain(text.substr(0, begin + 1));
      text.remove_prefix(begin + 1);
      continue;
    }
    plain(text.substr(0, begin));
    name(inner);
    text.remove_prefix(end + 1);
  }
}

}  // namespace

void set_parameter_style(ParameterStyle style) { parameter_style = style; }

std::string name_parameters(std::string_view text) {
  const ParameterStyle style = parameter_style;
  std::string result;
  split(
      text,
      [&](std::string_view plain) { result += plain; },
      [&](std::string_view name) {
        const std::string other = style == nullptr ? std::string() : style(name);
        result += other.empty() ? "`" + std::string(name) + "`" : other;
      });
  return result;
}

std::string as_written(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '`') result += kMark;
    result += c;
  }
  return result;
}

std::vector<std::string> parameters_in(std::string_view text) {
  std::vector<std::string> names;
  split(
      text,
      [](std::string_view) {},
      [&](std::string_view name) {
        if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
      });
  return names;
}

}  // namespace lockstep
