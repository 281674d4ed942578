// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "core/base/check.h"
#include "launcher/commands/commands.h"
#include "launcher/predict/predict_inputs.h"
#include "launcher/predict/predict_samples.h"
#include "launcher/predict/saved_run.h"
#include "launcher/settings/flag_values.h"

namespace lockstep {
namespace {

constexpr std::size_t kTopOfSamples = 3;

struct PredictFlags {
  std::vector<std::string> files;
  std::string count = "16", top, format = "table";
  bool logits = false;
};

/// Throws where something was typed that says of which labelled samples, in addition to files.
void refuse_samples(const CLI::App& app, const SavedRun& run, const PredictFlags& flags) {
  LOCKSTEP_CHECK(!run.names_data && app.count("--count") == 0,
                 ConfigError,
                 "{} cannot be combined with files, as {}",
                 run.names_data ? "--data" : "--count",
                 flags.files.front());
}

}  // namespace

int predict_command(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prints the predictions of a saved run for files: images, each row of a table, or texts. "
      "Without FILE: of the validation part of the run's data, or of --data, with labels.",
      "lockstep predict");
  PredictFlags flags;
  app.add_option("FILE",
                 flags.files,
                 "images, tables or texts as the run was trained on, folders of them, or patterns; "
                 "-: standard input")
      ->type_name("");
  app.add_option("--top", flags.top, "likeliest classes, labels or tokens in a line")
      ->type_name("K")
      ->default_str("5, of --data 3; labels: those of at least 50%")
      ->check(whole_number("--top", 1, 1000));
  app.add_option("--format", flags.format, "a line for people, CSV, or a JSON object a line")
      ->capture_default_str()
      ->type_name("table|csv|json")
      ->check(one_of("--format", {"table", "csv", "json"}));
  app.add_flag("--logits", flags.logits, "the model's raw outputs, instead of probabilities");
  app.add_option("--count", flags.count, "without FILE: samples; 0: all")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--count", 0, std::int64_t{1} << 40));
  const SavedRun run = open_saved_run(app, arguments);
  if (run.weights.empty()) return 0;
  std::optional<std::size_t> top;
  if (!flags.top.empty()) top = std::size_t(to_whole_number(flags.top));
  if (!flags.files.empty()) {
    refuse_samples(app, run, flags);
    predict_files(
        run,
        flags.files,
        {.format = parse_prediction_format(flags.format), .top = top, .logits = flags.logits});
    return 0;
  }
  LOCKSTEP_CHECK(!flags.logits && flags.format == "table",
                 ConfigError,
                 "--{} needs files to predict, as in lockstep predict --from DIR FILE",
                 flags.logits ? "logits" : "format");
  predict_samples(run, to_whole_number(flags.count), top.value_or(kTopOfSamples));
  return 0;
}

}  // namespace lockstep
