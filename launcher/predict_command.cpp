// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <iostream>
#include <optional>

#include "core/base/error.h"
#include "core/exec/answers.h"
#include "core/exec/batch_predictor.h"
#include "launcher/commands.h"
#include "launcher/flag_values.h"
#include "launcher/gpt_flags.h"
#include "launcher/job.h"
#include "launcher/open_data.h"
#include "launcher/predict/predict_inputs.h"
#include "launcher/saved_run.h"

namespace lockstep {
namespace {

constexpr std::size_t kTopOfSamples = 3;

std::string class_name(const std::vector<std::string>& names, std::int64_t number) {
  if (number < 0) return "ignored";
  return std::size_t(number) < names.size() ? names[std::size_t(number)] : std::to_string(number);
}

/// "cat 93.1%, dog 4.2%": the likeliest first.
std::string top_classes(std::span<const float> logits,
                        std::size_t top,
                        const data::Preprocessing& trained) {
  const std::vector<double> answers = softmax(logits);
  std::string text;
  for (const std::size_t i : largest(answers, top))
    text += fmt::format("{}{} {:.1f}%",
                        text.empty() ? "" : ", ",
                        class_name(trained.class_names, std::int64_t(i)),
                        answers[i] * 100);
  return text;
}

std::string line_of(std::int64_t index,
                    std::span<const float> prediction,
                    const std::byte* target,
                    std::size_t top,
                    const data::Preprocessing& trained) {
  if (trained.samples.classes == 0) {
    const std::span expected(reinterpret_cast<const float*>(target), prediction.size());
    const bool labels = trained.task == data::Task::multi_label;
    return fmt::format("{}  expected {:.6g}  predicted {:.6g}",
                       index,
                       fmt::join(labels ? std::vector<double>(expected.begin(), expected.end())
                                        : answers_of(trained, expected),
                                 " "),
                       fmt::join(answers_of(trained, prediction), " "));
  }
  std::int32_t label = 0;
  std::memcpy(&label, target, sizeof label);
  const auto best = std::ranges::max_element(prediction) - prediction.begin();
  return fmt::format("{}  {}  {}  {}",
                     index,
                     class_name(trained.class_names, label),
                     label < 0       ? "-"
                     : best == label ? "right"
                                     : "wrong",
                     top_classes(prediction, top, trained));
}

void predict_samples(const SavedRun& run, std::int64_t count, std::size_t top) {
  if (is_gpt(run.flags.model.name))
    throw ConfigError("of a gpt's data single samples cannot be predicted",
                      "name a text, as in lockstep predict --from DIR FILE; lockstep generate "
                      "continues one");
  Job job(0, nullptr);
  job.open_device(run.device);
  LOCKSTEP_CHECK(
      job.size() == 1, ConfigError, "lockstep predict runs on one rank, not {}", job.size());
  const auto labelled = open_labelled(run);
  const data::Dataset& data = *labelled;
  const data::SampleSpec& spec = data.spec();
  const std::int64_t all = count == 0 ? data.size() : std::min(count, data.size());
  const std::int64_t batch = std::min(kPredictedAtOnce, all);
  BatchPredictor predictor(
      job.backend(), model_of(run, spec), spec, batch, run.flags.options.precision, run.weights);
  warn_of_skipped(data);
  warn_of_slow_operators(job.backend());
  std::vector<std::byte> input(std::size_t(batch) * spec.input.bytes());
  std::vector<std::byte> target(std::size_t(batch) * spec.target.bytes());
  std::vector<std::int64_t> indices(static_cast<std::size_t>(batch));
  for (std::int64_t first = 0; first < all; first += batch) {
    // The last batch is filled up with the last sample.
    for (std::int64_t i = 0; i < batch; ++i) indices[std::size_t(i)] = std::min(first + i, all - 1);
    data.load_batch(0, indices, input.data(), target.data());
    const std::vector<float>& result = predictor.run(input.data());
    const std::size_t outputs = result.size() / std::size_t(batch);
    for (std::int64_t i = 0; i < batch && first + i < all; ++i)
      std::cout << line_of(first + i,
                           std::span(result).subspan(std::size_t(i) * outputs, outputs),
                           target.data() + std::size_t(i) * spec.target.bytes(),
                           top,
                           run.trained)
                << "\n";
  }
  std::cout << std::flush;
}

struct PredictFlags {
  std::vector<std::string> files;
  std::string count = "16", top, format = "table";
  bool logits = false;
};

/// Whether `flags` name files, or something is piped in that the run can predict.
bool wants_files(const CLI::App& app, const SavedRun& run, PredictFlags& flags) {
  const bool of_samples = run.names_data || app.count("--count") > 0;
  if (!flags.files.empty()) {
    LOCKSTEP_CHECK(!of_samples,
                   ConfigError,
                   "{} cannot be combined with files, as {}",
                   run.names_data ? "--data" : "--count",
                   flags.files.front());
    return true;
  }
  const bool text = run.trained.table || run.trained.task == data::Task::next_token;
  if (of_samples || !text || !stdin_is_given()) return false;
  flags.files = {"-"};
  return true;
}

}  // namespace

int predict_command(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prints what a saved run says of files: of images, of each row of a table, or of texts. "
      "Without FILE: of what is piped in, or else of the validation part of the run's data, or of "
      "--data, with labels.",
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
  if (wants_files(app, run, flags)) {
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
