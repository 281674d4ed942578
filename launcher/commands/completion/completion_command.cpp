// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/completion/completion_command.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "launcher/commands/completion/completion_scripts.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "lockstep/error.h"

namespace lockstep {

int completion_command(std::span<const Command> commands,
                       const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prints a script that lets a shell complete commands, flags, and values of flags. Where "
      "Lockstep is installed, the shells find theirs by themselves.",
      "lockstep completion");
  std::string shell;
  app.add_option("SHELL", shell, "as source <(lockstep completion bash)")
      ->type_name("bash|zsh|fish")
      ->check(one_of("completion", {"bash", "zsh", "fish"}));
  if (print_help(parse_command_line(app, arguments))) return 0;
  if (shell.empty())
    throw ConfigError("completion: expected the name of a shell", "bash, zsh or fish");
  const std::vector<DeclaredCommand> declared = declared_commands(commands);
  std::cout << (shell == "bash"  ? bash_completion(declared)
                : shell == "zsh" ? zsh_completion(declared)
                                 : fish_completion(declared))
            << std::flush;
  return 0;
}

}  // namespace lockstep
