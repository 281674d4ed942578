// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/commands/command.h"

namespace lockstep {

/// `lockstep man [COMMAND ...]`: prints lockstep(1), or lockstep-COMMAND(1) of one of `commands`;
/// with --to DIR, writes all pages into DIR, for the installation. Throws ConfigError: no such
/// command; EnvironmentError: a page cannot be written.
int man_command(std::span<const Command> commands, const std::vector<std::string>& arguments);

}  // namespace lockstep
