// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// Parses the arguments behind a command's name with `app`, which is called "lockstep <command>".
/// Of a flag given twice, the last counts. Returns the text of --help where that was asked for, in
/// which case nothing else was parsed, otherwise nothing. Throws ConfigError "<command>: what is
/// wrong", with the hint "<app's name> --help `listing`".
std::string parse_command_line(CLI::App& app,
                               const std::vector<std::string>& arguments,
                               const std::string& listing = "lists all flags");

/// Prints the text of --help, unless it is empty. Returns whether it was printed.
bool print_help(const std::string& help);

}  // namespace lockstep
