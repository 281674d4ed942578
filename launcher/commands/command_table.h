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
  /// Takes the arguments behind the name and returns the exit code.
  int (*run)(const std::vector<std::string>&);
};

/// All commands, in the order in which people meet them. Usage, help, completion and man pages are
/// made from this list and from what the commands declare.
std::span<const Command> all_commands();

/// The command called `name`. Throws ConfigError: there is none, with the nearest name as the hint.
const Command& find_command(std::string_view name);

/// Declares the program itself: its commands, --version and exit codes.
void declare_program(CLI::App& app);

/// `lockstep help [COMMAND ...]`: the same text as COMMAND --help. Throws ConfigError: no such
/// command.
int help_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
