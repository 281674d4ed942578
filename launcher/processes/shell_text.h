// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Whether every shell takes `text` literally, quoted or not.
bool plain_for_shell(const std::string& text);

/// `argument` as a shell takes it literally.
std::string for_shell(const std::string& argument);

/// What to type where this process was started, so that the run in `out` continues with its own
/// settings; `command` is train or run, `flags` are further arguments of it. Throws
/// EnvironmentError as own_path().
std::string resume_command(const std::string& command,
                           const std::string& out,
                           const std::vector<std::string>& flags = {});

}  // namespace lockstep
