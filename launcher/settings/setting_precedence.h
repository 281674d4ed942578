// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lockstep {

/// Whether what was typed on the command line, which `app` has parsed, takes the place or the
/// meaning of `flag` (with its dashes) as a configuration file gives it, whose --data is
/// `data_of_file`; empty: it has none.
bool is_overridden(const CLI::App& app,
                   const std::string& flag,
                   const std::string& value,
                   const std::string& data_of_file);

}  // namespace lockstep
