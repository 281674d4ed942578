// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "launcher/flags.h"

namespace lockstep {

struct RawFlags;

/// What csv:FILE needs to know of its columns; refuses those flags for other sources.
void resolve_table(const CLI::App& app, const RawFlags& raw, TrainFlags& flags);

/// Whether `flag`, as "--drop", belongs to csv:FILE alone.
bool is_table_flag(std::string_view flag);

/// The values of --missing and --separator, as they are typed.
std::string_view name_of(data::Missing missing);
std::string separator_text(char separator);

}  // namespace lockstep
