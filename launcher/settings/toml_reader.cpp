// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/toml_reader.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <set>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::string_view kEscapes = "btnfr\"\\";
constexpr std::string_view kEscaped = "\b\t\n\f\r\"\\";

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);  // char is unsigned on arm64
  return byte < 0x20 || byte == 0x7f;
}

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-+.:/").find(c) != std::string_view::npos;
}

class TomlReader {
 public:
  TomlReader(std::string_view text, std::string_view file) : rest_(text), file_(file) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  std::vector<TomlEntry> read() {
    std::vector<TomlEntry> entries;
    std::set<std::string> keys;
    for (skip_lines(); !rest_.empty(); skip_lines()) {
      TomlEntry entry = read_entry();
      if (!keys.insert(entry.key).second) fail(fmt::format("key {} is given twice", entry.key));
      skip_blanks();
      if (!rest_.empty() && rest_[0] != '\n' && rest_[0] != '#')
        fail(fmt::format("expected the end of the line after the value of {}", entry.key));
      entries.push_back(std::move(entry));
    }
    return entries;
  }

 private:
  TomlEntry read_entry() {
    if (rest_[0] == '[') {
      throw ConfigError(place() + "sections have no meaning here: keys stand alone",
                        "remove the line " + as_written(rest_.substr(0, rest_.find('\n'))));
    }
    TomlEntry entry;
    entry.line = line_;
    entry.key = read_text("a key");
    skip_blanks();
    if (!take('=')) fail(fmt::format("expected '=' after {}", entry.key));
    skip_blanks();
    if (!take('[')) {
      entry.values.push_back(read_text(fmt::format("a value for {}", entry.key)));
      return entry;
    }
    for (skip_lines(); !take(']'); skip_lines()) {
      entry.values.push_back(read_text(fmt::format("a value or ']' in the list of {}", entry.key)));
      skip_lines();
      if (!take(',') && !rest_.starts_with(']'))
        fail(fmt::format("expected ',' or ']' in the list of {}", entry.key));
    }
    if (entry.values.empty()) fail(fmt::format("the list of {} is empty", entry.key));
    return entry;
  }

  std::string read_text(const std::string& what) {
    if (take('\'')) return read_literal();
    if (take('"')) return read_basic();
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_bare);
    const std::string text(rest_.begin(), end);
    if (text.empty()) fail(fmt::format("expected {}", what));
    rest_.remove_prefix(text.size());
    return text;
  }

  std::string read_literal() {
    const std::size_t end = rest_.find_first_of("'\n");
    if (end == rest_.npos || rest_[end] == '\n') fail("a string has no closing quote");
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string read_basic() {
    std::string text;
    for (;;) {
      if (rest_.empty() || rest_[0] == '\n') fail("a string has no closing quote");
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return text;
      text += c == '\\' ? read_escape() : std::string(1, c);
    }
  }

  std::string read_escape() {
    const char c = rest_.empty() ? '\n' : rest_[0];
    if (c == 'u') return read_code_point();
    const std::size_t found = kEscapes.find(c);
    if (found == kEscapes.npos) {
      throw ConfigError(place() + "a backslash in a string with \"\" begins no known escape",
                        "write patterns and paths with single quotes: '...'");
    }
    rest_.remove_prefix(1);
    return std::string(1, kEscaped[found]);
  }

  /// \uXXXX as UTF-8.
  std::string read_code_point() {
    unsigned code = 0;
    const std::string_view digits = rest_.substr(1, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    if (error != std::errc() || digits.size() != 4 || end != digits.data() + 4 || surrogate)
      fail("expected four hexadecimal digits of a character after \\u");
    rest_.remove_prefix(5);
    if (code < 0x80) return {char(code)};
    if (code < 0x800) return {char(0xc0 | code >> 6), char(0x80 | (code & 0x3f))};
    return {char(0xe0 | code >> 12), char(0x80 | (code >> 6 & 0x3f)), char(0x80 | (code & 0x3f))};
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size()));
  }
  /// Blanks, ends of lines and comments.
  void skip_lines() {
    for (;;) {
      skip_blanks();
      if (take('\n'))
        ++line_;
      else if (rest_.starts_with('#'))
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      else
        return;
    }
  }

  std::string place() const { return fmt::format("{}, line {}: ", as_written(file_), line_); }
  [[noreturn]] void fail(const std::string& message) {
    throw ConfigError(place() + message, "lines have the form: key = value, without the dashes");
  }

  std::string_view rest_, file_;
  int line_ = 1;
};

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text, std::string_view file) {
  return TomlReader(text, file).read();
}

std::string toml_string(std::string_view text) {
  const bool literal =
      text.find('\'') == text.npos && std::none_of(text.begin(), text.end(), is_control);
  if (literal) return fmt::format("'{}'", text);
  std::string result = "\"";
  for (const char c : text) {
    const std::size_t found = kEscaped.find(c);
    if (found != kEscaped.npos)
      result += {'\\', kEscapes[found]};
    else if (is_control(c))
      result += fmt::format("\\u{:04x}", unsigned(c));
    else
      result += c;
  }
  return result + '"';
}

}  // namespace lockstep
