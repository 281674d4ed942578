// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep train`: `arguments` are those after the command. Returns the exit code; errors that
/// this process alone met before it knew other ranks are thrown.
int train_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
