// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A command of the program.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line; empty: the command is not listed
  /// Takes the arguments after the name and returns the exit code.
  int (*run)(const std::vector<std::string>&);
};

/// The one of `commands` called `name`. Throws ConfigError: there is none, with the nearest name as
/// the hint.
const Command& find_command(std::span<const Command> commands, std::string_view name);

/// Declares the program itself: `commands`, --version and exit codes.
void declare_program(CLI::App& app, std::span<const Command> commands);

}  // namespace lockstep
