// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "launcher/settings/command_line_arguments.h"

namespace lockstep {

/// Where --init is a folder of Hugging Face's, one with a config.json: sets model, sizes, context
/// and vocabulary in `raw` as its GPT-2 has them, and the recipe of the preset of that width.
/// Throws ConfigError: a flag that was given contradicts it (both are named). DataError:
/// config.json is malformed, is of another kind of model, or of a GPT-2 that gpt cannot be.
void take_init_folder(const CLI::App& app, CommandLineArguments& raw);

}  // namespace lockstep
