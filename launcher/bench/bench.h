// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launcher/settings/train_flags.h"
#include "lockstep/error.h"
#include "lockstep/job.h"

namespace lockstep {

/// The measurements of `lockstep bench`, each with the arguments after its name. They write no
/// files. Return exit codes, throw ConfigError and what they measure throws.
int bench_all_reduce(const std::vector<std::string>& arguments);
int bench_model(const std::vector<std::string>& arguments);
int bench_loader(const std::vector<std::string>& arguments);

/// Parses with `app`, whose unknown flags are for others; true: --help was asked for, and printed.
bool parse_bench(CLI::App& app, const std::vector<std::string>& arguments);

/// Runs `body` on every rank: under the launcher that started this process, or on the ranks that
/// train would start with these flags, then as `lockstep bench` with `arguments`. `quiet`: standard
/// output is for the result alone. Returns the exit code.
int run_bench(const TrainFlags& flags,
              const std::vector<std::string>& arguments,
              bool quiet,
              const std::function<void(Job&)>& body);

}  // namespace lockstep
