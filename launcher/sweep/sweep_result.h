// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/sweep/sweep_flags.h"

namespace lockstep {

/// A run of a sweep.
struct SweepRun {
  enum class State : std::uint8_t { waiting, done, failed, stopped };
  Configuration configuration;
  std::string folder, log;
  State state = State::waiting;
  std::optional<double> val_loss, val_accuracy, train_loss, samples_per_s;  ///< of its summary.json
  double seconds = 0;  ///< of the process that ended it
  std::string error;   ///< of a failed one
};

/// "done"
std::string_view name_of(SweepRun::State state);

/// Runs that differ in their seed alone, compared by the mean of the metric.
struct SweepGroup {
  Configuration configuration;           ///< without the seed
  std::vector<const SweepRun*> runs;     ///< that are done and have the metric, the best first
  int failed = 0;                        ///< further ones that failed, or have no finite metric
  double mean = 0, least = 0, most = 0;  ///< of the metric
};

struct SweepResult {
  SweepMetric metric;
  std::vector<SweepGroup> groups;           ///< the best first
  std::vector<const SweepRun*> unfinished;  ///< waiting, failed and stopped ones
};

/// The number called `metric` of a run that is done.
std::optional<double> metric_of(const SweepRun& run, std::string_view metric);

/// Reads the numbers of a run that has ended from its summary.json. Returns what is wrong; empty:
/// nothing.
std::string read_numbers(SweepRun& run);

/// Sorts what is done by the metric. Groups some of whose runs failed come after the others: the
/// rest may have been lucky. `runs` outlive it.
SweepResult compare_runs(const std::string& metric, const std::vector<SweepRun>& runs);

/// A table for people.
std::string sweep_text(const SweepResult& result);
/// A line a run, in the order of the runs: its settings, state, numbers, seconds and folder.
std::string sweep_csv(const std::vector<VariedSetting>& varied, const std::vector<SweepRun>& runs);
/// What a later call needs to continue, and what programs want to know.
std::string sweep_json(const SweepFlags& flags,
                       const SweepResult& result,
                       const std::vector<SweepRun>& runs);

/// Marks those of `runs` as done, with their numbers, that `file`, written by sweep_json(), says
/// are. A file that is not there changes nothing. Throws ConfigError: it is that of a sweep with
/// other flags of train; DataError: it is damaged.
void read_earlier(const std::filesystem::path& file,
                  const SweepFlags& flags,
                  std::vector<SweepRun>& runs);

}  // namespace lockstep
