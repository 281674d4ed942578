// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/data/preprocessing.h"
#include "core/exec/backend.h"
#include "launcher/flags.h"

namespace lockstep {

/// A run's or a checkpoint's model, as commands take it up again: its flags, with those typed now
/// over them, its weights, and how its samples are made.
struct SavedRun {
  TrainFlags flags;
  std::string device = "auto";  ///< as typed now: the run's own may not be here
  std::string weights;          ///< model.safetensors
  /// What was done to the data that the model was trained on, as its folder says; of a run by a
  /// version that kept no record, as its own data say.
  data::Preprocessing trained;
  bool names_data = false;      ///< --data was typed now
  bool is_trained_here = true;  ///< no: the weights are a file's of --init, the record of the data
};

/// Whether a command takes --init FILE --model NAME --data SOURCE in place of --from DIR.
enum class WeightsFile { refused, allowed };

/// Parses `arguments` with `app`, to which it adds --from DIR; flags that `app` does not know are
/// flags of train that overrule the run's (--data, --micro-batch, --precision, ...), and words
/// without a flag are `app`'s positional arguments. An empty result.weights says that help was
/// asked for and printed. Throws ConfigError: no --from, unknown flags; DataError: a record that is
/// damaged or missing; what find_weights() throws.
SavedRun open_saved_run(CLI::App& app,
                        const std::vector<std::string>& arguments,
                        WeightsFile file = WeightsFile::refused);

/// The labelled samples that --data names, or the run's own validation part, prepared as the run's
/// record says. Of --data that has no validation part and without --val-fraction: all of them.
/// Throws ConfigError: there are none; what data::open() throws.
std::shared_ptr<const data::Dataset> open_labelled(const SavedRun& run);

/// Warns of operators that fell back to a slow kernel, in Backend::notices(), which knows them once
/// they are made. Rank 0's to say.
void warn_of_slow_operators(const Backend& backend);

/// Names what opening `data` skipped. Rank 0's to say.
void warn_of_skipped(const data::Dataset& data);

/// The model of a run for samples of `spec`: those of its record, or of another context.
ModelFunction model_of(const SavedRun& run, const data::SampleSpec& spec);

}  // namespace lockstep
