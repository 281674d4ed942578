// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// Parses the arguments after a command's name with `app`, which is called "lockstep <command>".
/// Of a flag given twice, the last counts. Names of flags from other programs are taken too; see
/// canonical_arguments(). Returns the text of --help where that was asked for, in which case
/// nothing else was parsed, otherwise nothing. Throws ConfigError "<command>: what is wrong", with
/// the hint "<app's name> --help `listing`" or a flag that may have been meant.
std::string parse_command_line(CLI::App& app,
                               const std::vector<std::string>& arguments,
                               const std::string& listing = "lists all flags");

/// The same, but each option keeps its own policy for values that are given several times.
std::string parse_with_own_policies(CLI::App& app,
                                    const std::vector<std::string>& arguments,
                                    const std::string& listing);

/// The text of --help, for this terminal's width.
std::string help_text(CLI::App& app);

/// Prints the text of --help, unless it is empty. Returns whether there was one.
bool print_help(const std::string& help);

/// Calls `read` with what `command` declares, and runs nothing else of it. `command` is called with
/// --help.
void read_declarations(const std::function<int(const std::vector<std::string>&)>& command,
                       const std::function<void(CLI::App&)>& read);

}  // namespace lockstep
