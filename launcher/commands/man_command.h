// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep man [COMMAND ...]`: prints lockstep(1) or lockstep-COMMAND(1); with --to DIR, writes
/// all pages into DIR, for the installation. Throws ConfigError: no such command; EnvironmentError:
/// a page cannot be written.
int man_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
