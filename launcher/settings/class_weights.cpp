// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/class_weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/ranges.h>
#include <optional>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/input_file.h"
#include "lockstep/data/sources.h"

namespace lockstep {
namespace {

constexpr std::string_view kSeparators = ", \t\r\n";

/// The first of `text` that is not a number, if there is any.
std::optional<std::string> read_numbers(std::string_view text, std::vector<float>& numbers) {
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(kSeparators, at);
    if (at == text.npos) return std::nullopt;
    const std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    float number = 0;
    const auto [last, status] = std::from_chars(text.data() + at, text.data() + end, number);
    if (status != std::errc{} || last != text.data() + end)
      return std::string(text.substr(at, end - at));
    numbers.push_back(number);
    at = end;
  }
}

std::vector<float> numbers_of_file(const std::string& file) {
  std::vector<float> numbers;
  const auto wrong = read_numbers(
      data::read_text_file(file, "expected a file of numbers, a weight for each class"), numbers);
  if (wrong)
    throw DataError(
        fmt::format("{}: '{}' is not a number", as_written(file), as_written(wrong->substr(0, 40))),
        "expected a weight for each class, between commas or white space");
  return numbers;
}

std::vector<float> balanced(const data::Dataset& data) {
  const std::vector<std::int64_t> counts = data::class_counts(data);
  std::int64_t samples = 0;
  for (const std::int64_t count : counts) samples += count;
  std::vector<float> weights;
  const std::vector<std::string> names = data.class_names();
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0)
      throw ConfigError(
          fmt::format("--class-weights balanced: class {}{} has no training sample",
                      k,
                      k < names.size() ? fmt::format(" '{}'", as_written(names[k])) : ""),
          "add samples of it, remove the class, or give a weight for each class");
    weights.push_back(float(double(samples) / (double(counts.size()) * double(counts[k]))));
  }
  return weights;
}

}  // namespace

std::vector<float> class_weights(const TrainFlags& flags, int classes) {
  std::vector<float> weights;
  if (flags.class_weights.empty()) return weights;
  const auto wrong = read_numbers(flags.class_weights, weights);
  LOCKSTEP_CHECK(!wrong,
                 ConfigError,
                 "--class-weights: '{}' is not a number",
                 as_written(wrong.value_or("").substr(0, 40)));
  LOCKSTEP_CHECK(std::ssize(weights) == classes,
                 ConfigError,
                 "--class-weights: expected a weight for each of the {} classes, got {}",
                 classes,
                 weights.size());
  for (const float weight : weights)
    LOCKSTEP_CHECK(weight >= 0 && std::isfinite(weight),
                   ConfigError,
                   "--class-weights: expected finite numbers of at least 0, got {}",
                   weight);
  LOCKSTEP_CHECK(std::ranges::any_of(weights, [](float w) { return w > 0; }),
                 ConfigError,
                 "--class-weights: all weights are 0, so nothing would be learned");
  return weights;
}

void resolve_class_weights(TrainFlags& flags, const data::Dataset& data) {
  if (flags.class_weights.empty()) return;
  std::vector<float> numbers;
  if (flags.class_weights == "balanced")
    numbers = balanced(data);
  else if (read_numbers(flags.class_weights, numbers))
    numbers = numbers_of_file(flags.class_weights);
  LOCKSTEP_CHECK(!numbers.empty(),
                 ConfigError,
                 "--class-weights {}: expected a number for each class, found none",
                 as_written(flags.class_weights));
  flags.class_weights = fmt::format("{}", fmt::join(numbers, ","));
  if (data.spec().classes > 0) class_weights(flags, data.spec().classes);
}

}  // namespace lockstep
