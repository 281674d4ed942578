// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/commands/command.h"

namespace lockstep {

/// `lockstep completion bash|zsh|fish`: prints a script that teaches the shell `commands`, flags
/// and the fixed values of flags. Throws ConfigError: another shell, or none.
int completion_command(std::span<const Command> commands,
                       const std::vector<std::string>& arguments);

}  // namespace lockstep
