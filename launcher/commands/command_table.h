// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/commands/command.h"

namespace lockstep {

/// All commands, in the order in which people meet them. Usage, help, completion and man pages are
/// made from this list and from what the commands declare.
std::span<const Command> all_commands();

/// `lockstep help [COMMAND ...]`: the same text as COMMAND --help. Throws ConfigError: no such
/// command.
int help_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
