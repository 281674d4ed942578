// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/exec/backend.h"
#include "launcher/flags.h"

namespace lockstep {

/// A run's or a checkpoint's model, as commands take it up again: its flags, with those typed now
/// over them, its weights, and what its classes are called.
struct SavedRun {
  TrainFlags flags;
  std::string device = "auto";     ///< as typed now: the run's own may not be here
  std::string weights;             ///< model.safetensors
  int classes = 0;                 ///< or tokens; 0: unknown or regression
  std::vector<std::string> names;  ///< of classes or tokens; empty where they have none
};

/// Parses `arguments` with `app`, to which it adds --from DIR; what `app` does not know are flags
/// of train that overrule the run's (--data, --micro-batch, --precision, ...). An empty
/// result.weights says that help was asked for and printed. Throws ConfigError: no --from, unknown
/// flags; what find_weights() throws.
SavedRun open_saved_run(CLI::App& app, const std::vector<std::string>& arguments);

/// Throws ConfigError where the classes of `data` have other names, or are as many others, than
/// those the run was trained on: its answers would be read as other classes.
void check_classes(const SavedRun& run, const data::Dataset& data);

/// Warns of operators that fell back to a slow kernel, in Backend::notices(), which knows them once
/// they are made. Rank 0's to say.
void warn_of_slow_operators(const Backend& backend);

/// classes.json of a run's folder: the number of classes and their names.
std::string classes_json(const data::Dataset& dataset);

/// The model of a run for samples of `spec`.
ModelFunction model_of(const SavedRun& run, const data::SampleSpec& spec);

}  // namespace lockstep
