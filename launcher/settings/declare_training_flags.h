// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep {

struct CommandLineArguments;

/// The part of declare_flags() that is about how a model is trained: optimizer, engine, faults and
/// output. The rest is about what is trained: model, data, batch and length.
void declare_training_flags(CLI::App& app, CommandLineArguments& raw);

}  // namespace lockstep
