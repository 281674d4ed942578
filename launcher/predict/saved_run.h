// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/exec/backend.h"
#include "launcher/settings/train_flags.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/job.h"

namespace lockstep {

/// A run's or a checkpoint's model, as commands take it up again: its flags, with those typed now
/// over them, its weights, and how its samples are made.
struct SavedRun {
  TrainFlags flags;
  std::string device = "auto";  ///< as typed now: the run's own may not be here
  std::string weights;          ///< model.safetensors, or ema.safetensors with --ema
  /// What was done to the data that the model was trained on, as its folder says; of a run by a
  /// version that kept no record, as its own data say.
  data::Preprocessing trained;
  /// With --eval-image-size: `trained` as the folder says, and not for images of that size.
  std::optional<data::Preprocessing> recorded;
  bool names_data = false;  ///< --data was typed now
  /// The run's own settings with the --data that was typed now, where that is of the same kind and
  /// came without --val-fraction: they find out whether the data are those of the run. Of a run on
  /// several sources, with a typed one in the place of each.
  std::vector<TrainFlags> with_other_data;
  /// "validation data content" of its newest checkpoint's settings; empty: unknown.
  std::string validation_content;
  /// Whether predictions are means with those of mirror images.
  bool mirrors() const { return flags.options.tta == TestTimeAugmentation::flip; }
  bool is_trained_here = true;  ///< no: the weights are a file's of --init, the record of the data
};

/// Whether a command takes --init FILE --model NAME --data SOURCE in place of --from DIR.
enum class WeightsFile { refused, allowed };

/// Flags of train that such a command never takes; others it takes or ignores.
std::vector<std::string_view> refused_train_flags(WeightsFile file);

/// What the arguments of such a command say, before anything is read.
struct SavedRunRequest {
  std::string command = {};             ///< "lockstep evaluate"
  std::string from = {};                ///< empty: --init is among the flags
  std::vector<std::string> flags = {};  ///< of train
  bool average = false;                 ///< of the weights, in place of them
  bool help = false;                    ///< was asked for and printed
};

/// Parses `arguments` with `app`, to which it adds --from DIR; flags that `app` does not know are
/// flags of train that overrule the run's (--data, --micro-batch, --precision, ...), and words
/// without a flag are `app`'s positional arguments. Throws ConfigError: no --from.
SavedRunRequest parse_saved_run(CLI::App& app,
                                const std::vector<std::string>& arguments,
                                WeightsFile file = WeightsFile::refused);

/// Those that the flags, or the run's own settings, say; the defaults where they cannot be read.
WatchLimits watch_limits(const SavedRunRequest& request);

/// Every rank opens the checkpoint that rank 0 finds, also while the run continues and writes
/// others. Collective. Throws ConfigError: unknown flags, flags that a trained model cannot have;
/// DataError: a record that is damaged or missing; what find_weights() throws, on every rank alike.
SavedRun open_saved_run(Job& job, const SavedRunRequest& request);

/// Both for a command of one rank. An empty result.weights says that help was asked for.
SavedRun open_saved_run(CLI::App& app,
                        const std::vector<std::string>& arguments,
                        WeightsFile file = WeightsFile::refused);

/// Warns of operators that fell back to a slow kernel, in Backend::notices(), which knows them once
/// they are made. Rank 0's to say.
void warn_of_slow_operators(const Backend& backend);

/// Names what opening `data` skipped. Rank 0's to say.
void warn_of_skipped(const data::Dataset& data);

/// The model of a run for samples of `spec`: those of its record, or of a shorter context.
ModelFunction model_of(const SavedRun& run, const data::SampleSpec& spec);

}  // namespace lockstep
