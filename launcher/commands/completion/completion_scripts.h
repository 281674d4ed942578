// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "launcher/commands/declared_commands.h"

namespace lockstep {

/// Scripts that complete the words of `lockstep`. They hold all words themselves and run no
/// program.
std::string bash_completion(std::span<const DeclaredCommand> commands);
std::string zsh_completion(std::span<const DeclaredCommand> commands);
std::string fish_completion(std::span<const DeclaredCommand> commands);

}  // namespace lockstep
