// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// `arguments` with the names that other programs give to flags of train in Lockstep's words:
/// --learning-rate 0.1 becomes --lr 0.1, and --global_batch becomes --global-batch. Only names that
/// mean the same with the same values; names that `app` has itself stay, as do those whose flag
/// neither `app` has nor, where `app` leaves unknown flags to others, train.
std::vector<std::string> canonical_arguments(const CLI::App& app,
                                             const std::vector<std::string>& arguments);

/// The same for one argument that is a flag, with or without =VALUE.
std::string canonical_flag(const CLI::App& app, const std::string& argument);

/// What to type instead of `name` (of a flag or a key, without dashes), which `app` does not have:
/// by its meaning in other programs, as a singular or plural, or by its spelling. Empty: nothing is
/// near enough. `dashes`: before names in the result, "--" or nothing.
std::string flag_hint(const CLI::App& app, std::string_view name, std::string_view dashes);

}  // namespace lockstep
