// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/command.h"

#include <fmt/format.h>

#include "core/base/parameter_names.h"
#include "core/base/text/suggest.h"
#include "lockstep/error.h"

namespace lockstep {

const Command& find_command(std::span<const Command> commands, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : commands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  const std::string best = nearest(name, names);
  throw ConfigError(fmt::format("unknown command '{}'", as_written(name)),
                    best.empty() ? "lockstep --help" : "did you mean lockstep " + best + "?");
}

void declare_program(CLI::App& app, std::span<const Command> commands) {
  app.description(
      "Trains neural networks data-parallel, with the same bits on any number of ranks.");
  app.add_flag_callback(
      "--version", [] {}, "print the version");
  app.add_flag_callback(
      "--json",
      [] {},
      "after --version: one JSON object about the build, the libraries it has loaded, and an SBOM "
      "(SPDX)");
  for (const Command& command : commands)
    if (!command.summary.empty())
      app.add_subcommand(std::string(command.name), std::string(command.summary))
          ->group("Commands");
  app.footer(
      "Exit codes: 0 done, 1 error, 2 usage, 3 environment, 4 out of memory, 5 a rank died, is "
      "frozen or stuck, or never joined, 6 replicas differ, 7 loss not finite, 75 stopped by a "
      "signal, with a checkpoint to resume from.\n"
      "lockstep help COMMAND lists the flags of a command.");
}

}  // namespace lockstep
