// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "launcher/commands/command.h"

namespace lockstep {

/// What may follow a flag, or where a command takes words without one.
struct DeclaredValue {
  std::vector<std::string> words;  ///< fixed ones; "csv:" ends with the colon before a path
  bool files = false, folders = false;
};

struct DeclaredFlag {
  std::string name;  ///< with its dashes
  std::string help;
  bool takes_value = false;
  DeclaredValue value;
};

/// What completion needs of a command.
struct DeclaredCommand {
  std::string name;     ///< "train"; of a part of bench "all-reduce"
  std::string summary;  ///< one line
  std::vector<DeclaredFlag> flags;
  DeclaredValue words;                           ///< after the command, without a flag
  bool takes_train_flags = false;                ///< in addition to its own
  std::vector<std::string> refused_train_flags;  ///< of those, what it does not take
  std::vector<DeclaredCommand> parts;
};

/// Whether `command` takes the flag `name` of train in addition to its own.
bool takes_train_flag(const DeclaredCommand& command, const std::string& name);

/// Every command of `all` that is listed, and --version, with what it declares; its parts are
/// declared likewise.
std::vector<DeclaredCommand> declared_commands(std::span<const Command> all);

/// Calls `read` with the name after "lockstep " ("bench model"), the summary and the declarations
/// of every one of `commands` that is listed, and of its parts.
void for_each_command(
    std::span<const Command> commands,
    const std::function<void(const std::string&, const std::string&, CLI::App&)>& read);

}  // namespace lockstep
