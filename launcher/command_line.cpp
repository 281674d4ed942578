// SPDX-License-Identifier: Apache-2.0
#include "launcher/command_line.h"

#include <iostream>
#include <sstream>

#include "core/base/error.h"

namespace lockstep {

std::string parse_command_line(CLI::App& app,
                               const std::vector<std::string>& arguments,
                               const std::string& listing) {
  // Arguments without a name, as the runs of a report, are a list.
  for (CLI::Option* option : app.get_options())
    if (!option->get_positional()) option->take_last();
  try {
    // CLI11 wants them last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::Error& error) {
    std::string program, command;
    std::istringstream(app.get_name()) >> program >> command;
    throw ConfigError(command + ": " + error.what(), app.get_name() + " --help " + listing);
  }
  return {};
}

bool print_help(const std::string& help) {
  std::cout << help << std::flush;
  return !help.empty();
}

}  // namespace lockstep
