// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/data_of_run.h"

#include <fmt/format.h>
#include <string>

#include "core/data/images/image_samples.h"
#include "launcher/settings/open_data.h"
#include "lockstep/error.h"
#include "parallel/session/error_report.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

/// What is kept of a text and of tokens for validation where no flag says.
constexpr double kTextFraction = 0.1;

enum class DataOfRun { same, others, unknown };

/// Whether the --data that was typed now are those that the run was trained on.
DataOfRun compare_with_run(const SavedRun& run) {
  if (run.validation_content.empty()) return DataOfRun::unknown;
  DataOfRun result = DataOfRun::others;
  for (const TrainFlags& own : run.with_other_data) {
    data::Preprocessing record = run.recorded.value_or(run.trained);
    if (own.eval_image_size > 0) record = data::resized(record, own.eval_image_size);
    try {
      const auto as_trained = open_data(own, &record).validation;
      if (as_trained && fmt::format("{:016x}", as_trained->fingerprint()) == run.validation_content)
        return DataOfRun::same;
    } catch (const Error&) {
      // Too few samples for such a part: they are not the run's. Of several it may be another
      // source that is no longer there.
      if (!own.more_data.empty()) result = DataOfRun::unknown;
    }
  }
  return result;
}

/// The run's own part of --data, of which `all` was opened, where these are the run's data, or one
/// of its sources; null: they are others or unknown, or it is no smaller, as where the source has a
/// validation part.
std::shared_ptr<const data::Dataset> open_own_part(const SavedRun& run, const data::Dataset& all) {
  const double fraction = run.with_other_data.front().val_fraction;
  TrainFlags flags = run.flags;
  flags.val_fraction = fraction;
  std::shared_ptr<const data::Dataset> part;
  try {
    part = open_data(flags, &run.trained).validation;
  } catch (const Error&) {
    return nullptr;  // too few samples for such a part: they are not the run's
  }
  if (!part || part->size() >= all.size()) return nullptr;
  const DataOfRun found = compare_with_run(run);
  if (found == DataOfRun::others) return nullptr;
  const int rank = launched_rank(process_variables());
  if (found == DataOfRun::unknown) {
    print_warning(
        fmt::format("{} whether it was trained on --data {}; all of it is taken: if it was, take "
                    "the run's validation part with --val-fraction {}",
                    run.validation_content.empty()
                        ? "the run has no checkpoint that tells"
                        : "the run's other sources are not there, which could tell",
                    run.flags.data,
                    fraction > 0 ? fraction : kTextFraction),
        rank);
    return nullptr;
  }
  print_warning(fmt::format("the run was trained on --data {}: its validation part alone is taken; "
                            "--val-fraction 1 takes all",
                            run.flags.data),
                rank);
  return part;
}

}  // namespace

std::shared_ptr<const data::Dataset> open_labelled(const SavedRun& run) {
  const data::DataSplit data = open_data(run.flags, &run.trained);
  if (data.validation == nullptr || data.validation->size() == 0)
    throw ConfigError(fmt::format("--data {} has no validation part", run.flags.data),
                      run.flags.data.starts_with("synthetic")
                          ? "synthetic samples are noise, for measuring speed"
                          : "--val-fraction makes one");
  if (!run.with_other_data.empty())
    if (const auto own = open_own_part(run, *data.validation)) return own;
  return data.validation;
}

}  // namespace lockstep
