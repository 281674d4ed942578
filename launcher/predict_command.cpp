// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <numeric>

#include "core/base/error.h"
#include "core/exec/predictor.h"
#include "launcher/commands.h"
#include "launcher/flag_values.h"
#include "launcher/gpt_flags.h"
#include "launcher/job.h"
#include "launcher/open_data.h"
#include "launcher/saved_run.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBatch = 32;

std::string class_name(const std::vector<std::string>& names, std::int64_t number) {
  if (number < 0) return "ignored";
  return std::size_t(number) < names.size() ? names[std::size_t(number)] : std::to_string(number);
}

/// "cat 93.1%, dog 4.2%": softmax of `logits`, the likeliest first.
std::string top_classes(std::span<const float> logits,
                        std::size_t top,
                        const std::vector<std::string>& names) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  top = std::min(top, order.size());
  std::partial_sort(
      order.begin(), order.begin() + std::ptrdiff_t(top), order.end(), [&](auto a, auto b) {
        return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
      });
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double(logit) - double(logits[order[0]]));
  std::string text;
  for (std::size_t i = 0; i < top; ++i)
    text += fmt::format("{}{} {:.1f}%",
                        i == 0 ? "" : ", ",
                        class_name(names, std::int64_t(order[i])),
                        std::exp(double(logits[order[i]]) - double(logits[order[0]])) / sum * 100);
  return text;
}

std::string line_of(std::int64_t index,
                    std::span<const float> prediction,
                    const std::byte* target,
                    const data::SampleSpec& spec,
                    std::size_t top,
                    const std::vector<std::string>& names) {
  if (spec.classes == 0) {
    const auto* expected = reinterpret_cast<const float*>(target);
    return fmt::format("{}  expected {:.6g}  predicted {:.6g}",
                       index,
                       fmt::join(expected, expected + spec.target.elems(), " "),
                       fmt::join(prediction, " "));
  }
  std::int32_t label = 0;
  std::memcpy(&label, target, sizeof label);
  const auto best = std::ranges::max_element(prediction) - prediction.begin();
  return fmt::format("{}  {}  {}  {}",
                     index,
                     class_name(names, label),
                     label < 0       ? "-"
                     : best == label ? "right"
                                     : "wrong",
                     top_classes(prediction, top, names));
}

void predict(const SavedRun& run, std::int64_t count, std::size_t top) {
  LOCKSTEP_CHECK(!is_gpt(run.flags.model.name),
                 ConfigError,
                 "lockstep predict is for classes and numbers; lockstep generate is for gpt");
  Job job(0, nullptr);
  job.open_device(run.device);
  LOCKSTEP_CHECK(
      job.size() == 1, ConfigError, "lockstep predict runs on one rank, not {}", job.size());
  const data::DataSplit split = open_data(run.flags);
  LOCKSTEP_CHECK(split.validation != nullptr,
                 ConfigError,
                 "--data {} has no validation part; --val-fraction makes one",
                 run.flags.data);
  check_classes(run, *split.train);
  const data::Dataset& data = *split.validation;
  const data::SampleSpec& spec = data.spec();
  const std::int64_t all = count == 0 ? data.size() : std::min(count, data.size());
  const std::int64_t batch = std::min(kBatch, all);
  Predictor predictor(
      job.backend(), model_of(run, spec), spec, batch, run.flags.options.precision, run.weights);
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
                           spec,
                           top,
                           run.names)
                << "\n";
  }
  std::cout << std::flush;
}

}  // namespace

int predict_command(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prints a line for each sample of the validation part of a saved run's data, or of "
      "--data: number, label, right or wrong, and the likeliest classes.",
      "lockstep predict");
  std::string count = "16", top = "3";
  app.add_option("--count", count, "samples; 0: all")
      ->capture_default_str()
      ->check(whole_number("--count", 0, std::int64_t{1} << 40));
  app.add_option("--top", top, "classes in a line")
      ->capture_default_str()
      ->check(whole_number("--top", 1, 1000));
  const SavedRun run = open_saved_run(app, arguments);
  if (run.weights.empty()) return 0;
  predict(run, to_whole_number(count), std::size_t(to_whole_number(top)));
  return 0;
}

}  // namespace lockstep
