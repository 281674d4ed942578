// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// The arguments of a command that takes flags of train in addition to its own.
struct SplitArguments {
  std::vector<std::string> own;    ///< for the command: its flags, then words without a flag
  std::vector<std::string> train;  ///< flags of train, and unknown ones
};

/// Which of `arguments` are flags of `app`, with their values, and which are not; each by its own
/// name, whichever of canonical_arguments() was typed. A word without a
/// flag is `app`'s where that has positional arguments, also after "--".
SplitArguments split_arguments(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace lockstep
