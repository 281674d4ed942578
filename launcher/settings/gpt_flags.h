// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "launcher/settings/train_flags.h"

namespace lockstep {

struct CommandLineArguments;

/// Sets the sizes of gpt in `spec` from the flags of that model; refuses them for other models and
/// sizes for presets, which have theirs.
void resolve_gpt(const CLI::App& app, const CommandLineArguments& raw, nn::ModelSpec& spec);

/// What text and tokens need to know: the tokens of a sample and the vocabulary. `spec` is
/// resolved.
void resolve_tokens(const CLI::App& app, const CommandLineArguments& raw, TrainFlags& flags);

/// Whether `model` is gpt or one of its presets; whether `data` has samples of tokens.
bool is_gpt(const std::string& model);
bool has_tokens(const std::string& data);

}  // namespace lockstep
