// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/help_format.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kMinColumns = 20, kMaxColumns = 120, kUnknownColumns = 80;
/// Where descriptions of flags begin; in a narrow terminal they stand below the names.
constexpr std::size_t kFlagColumn = 34, kCommandColumn = 14, kBelowColumn = 6;
constexpr std::size_t kNarrow = 64;

std::size_t columns_of_variable() {
  const char* const text = std::getenv("COLUMNS");
  const long columns = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return columns > 0 ? std::size_t(columns) : kUnknownColumns;
}

/// How much of `word` goes into a line with room for `room`; all of it where it cannot be cut.
std::size_t cut_of(std::string_view word, std::size_t room) {
  const std::size_t at = word.substr(0, room).find_last_of("|,=/");
  return at == word.npos ? word.size() : at + 1;
}

void wrap_line(std::string_view text, std::size_t columns, std::vector<std::string>& lines) {
  std::string line;
  const auto end_line = [&] {
    lines.push_back(std::move(line));
    line.clear();
  };
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!line.empty() && line.size() + 1 + word.size() > columns) end_line();
    while (word.size() > columns && cut_of(word, columns) < word.size()) {
      line = word.substr(0, cut_of(word, columns));
      word.remove_prefix(line.size());
      end_line();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  end_line();
}

}  // namespace

std::size_t help_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return std::clamp(
      known ? std::size_t(size.ws_col) : columns_of_variable(), kMinColumns, kMaxColumns);
}

std::vector<std::string> wrap(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    wrap_line(line, columns, lines);
  }
  return lines;
}

std::string HelpFormat::paragraph(const std::string& text) const {
  std::string result;
  for (const std::string& line : wrap(text, columns_)) result += line + "\n";
  return result;
}

std::string HelpFormat::row(const std::string& name,
                            const std::string& description,
                            std::size_t column) const {
  if (columns_ < kNarrow) column = kBelowColumn;
  std::string result;
  for (const std::string& line : wrap(name, columns_ - kBelowColumn))
    result += std::string(result.empty() ? 2 : kBelowColumn, ' ') + line + "\n";
  const std::vector<std::string> lines = wrap(description, columns_ - column);
  const bool beside = name.size() + 4 <= column && !lines.empty();
  if (beside) result.back() = ' ';
  for (std::size_t i = 0; i < lines.size(); ++i)
    result +=
        std::string(beside && i == 0 ? column - result.size() : column, ' ') + lines[i] + "\n";
  return result;
}

std::string HelpFormat::make_description(const CLI::App* app) const {
  return paragraph(CLI::Formatter::make_description(app)) + "\n";
}

// CLI11 puts an empty line before a group and one between groups: one of them is enough.
std::string HelpFormat::make_group(std::string group,
                                   bool is_positional,
                                   std::vector<const CLI::Option*> options) const {
  const std::string text = CLI::Formatter::make_group(group, is_positional, std::move(options));
  return group == "Options" || is_positional ? text : text.substr(1);
}

std::string HelpFormat::make_usage(const CLI::App* app, std::string name) const {
  std::string text = "usage: " + name;
  if (!app->get_subcommands({}).empty()) text += " COMMAND";
  for (const CLI::Option* option :
       app->get_options([](const CLI::Option* o) { return o->get_positional(); }))
    text += " " + make_option_usage(option);
  return paragraph(text + " [--flag VALUE | --flag=VALUE] ...");
}

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  return row(make_option_name(option, is_positional) + make_option_opts(option),
             make_option_desc(option),
             kFlagColumn);
}

std::string HelpFormat::make_subcommand(const CLI::App* sub) const {
  return row(sub->get_name(), sub->get_description(), kCommandColumn);
}

std::string HelpFormat::make_footer(const CLI::App* app) const {
  return paragraph(app->get_footer());
}

}  // namespace lockstep
