// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep completion bash|zsh|fish`: prints a script that teaches the shell commands, flags and
/// the fixed values of flags. Throws ConfigError: another shell, or none.
int completion_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
