// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// Columns of the terminal that standard output is, otherwise $COLUMNS, otherwise 80; between 20
/// and 120.
std::size_t help_columns();

/// Breaks `text` at spaces so that no line is longer than `columns`. Lines of `text` stay lines. A
/// word without room is cut after one of | , = / where it has one, and otherwise keeps its length.
std::vector<std::string> wrap(const std::string& text, std::size_t columns);

/// --help of a command: names on the left, descriptions on the right, no line longer than `columns`
/// where wrap() can cut it.
class HelpFormat final : public CLI::Formatter {
 public:
  explicit HelpFormat(std::size_t columns) : columns_(columns) {}

  std::string make_description(const CLI::App* app) const override;
  std::string make_group(std::string group,
                         bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::string paragraph(const std::string& text) const;
  std::string row(const std::string& name,
                  const std::string& description,
                  std::size_t column) const;
  std::size_t columns_;
};

}  // namespace lockstep
