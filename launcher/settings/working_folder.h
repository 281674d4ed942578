// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/settings/toml_reader.h"

namespace lockstep {

/// The key of config.toml that says in which folder relative paths of the others were typed. It is
/// not a flag.
inline constexpr const char* kWorkingFolder = "working-folder";

/// Of this process; empty where the system does not say.
std::string working_folder();

/// Removes that key from `entries` and returns its value; empty where there is none.
std::string take_working_folder(std::vector<TomlEntry>& entries);

/// `path`, or where it is relative and `folder`, another than the current one, has it: with
/// `folder` before it.
std::string file_found_from(const std::string& folder, const std::string& path);
/// The same for what --data takes: csv:FILE.
std::string data_found_from(const std::string& folder, const std::string& data);

}  // namespace lockstep
