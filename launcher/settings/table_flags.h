// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

#include "launcher/settings/train_flags.h"

namespace lockstep {

struct CommandLineArguments;

/// What csv:FILE needs to know of its columns; refuses those flags for other sources.
void resolve_table(const CLI::App& app, const CommandLineArguments& raw, TrainFlags& flags);

/// The flags that belong to csv:FILE alone, with their dashes.
std::span<const std::string_view> table_flags();

/// Whether `flag`, as "--drop", is one of them.
bool is_table_flag(std::string_view flag);

/// The values of --missing and --separator, as they are typed.
std::string_view name_of(data::Missing missing);
std::string separator_text(char separator);

}  // namespace lockstep
