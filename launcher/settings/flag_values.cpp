// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/flag_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/suggest.h"

namespace lockstep {
namespace {

template <typename Number>
std::optional<Number> parse(const std::string& text) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::function<std::string(std::string&)> whole_number_check(const std::string& flag,
                                                            const std::string& word,
                                                            std::int64_t least,
                                                            std::int64_t most) {
  return [=](std::string& text) {
    const auto value = parse<std::int64_t>(text);
    const bool valid =
        (!word.empty() && text == word) || (value && *value >= least && *value <= most);
    LOCKSTEP_CHECK(valid,
                   ConfigError,
                   "{} is '{}', expected {}a whole number from {} to {}",
                   flag,
                   as_written(text),
                   word.empty() ? "" : fmt::format("'{}' or ", word),
                   least,
                   most);
    return std::string();
  };
}

}  // namespace

CLI::Validator whole_number(const std::string& flag, std::int64_t least, std::int64_t most) {
  return CLI::Validator(whole_number_check(flag, "", least, most), "");
}

CLI::Validator whole_number_or(const std::string& flag,
                               const std::string& word,
                               std::int64_t least,
                               std::int64_t most) {
  return CLI::Validator(whole_number_check(flag, word, least, most), "");
}

CLI::Validator real_number(const std::string& flag, double least, double most) {
  return real_number_or(flag, "", least, most);
}

CLI::Validator real_number_or(const std::string& flag,
                              const std::string& word,
                              double least,
                              double most) {
  return CLI::Validator(
      [=](std::string& text) {
        if (!word.empty() && text == word) return std::string();
        const auto value = parse<double>(text);
        const bool valid =
            value.has_value() && std::isfinite(*value) && *value >= least && *value <= most;
        if (valid) return std::string();
        throw ConfigError(fmt::format("{} is '{}', expected {}a number from {} to {}",
                                      flag,
                                      as_written(text),
                                      word.empty() ? "" : fmt::format("'{}' or ", word),
                                      least,
                                      most));
      },
      "");
}

namespace {

/// Nothing where `text` is not a size of at least a byte and at most 2^50.
std::optional<std::uint64_t> parse_bytes(const std::string& text) {
  if (text == "none") return 0;
  constexpr std::pair<std::string_view, double> kUnits[] = {{"KiB", 0x1p10},
                                                            {"MiB", 0x1p20},
                                                            {"GiB", 0x1p30},
                                                            {"TiB", 0x1p40},
                                                            {"kB", 1e3},
                                                            {"MB", 1e6},
                                                            {"GB", 1e9},
                                                            {"TB", 1e12},
                                                            {"", 1}};
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = parse<double>(text.substr(0, text.size() - unit.size()));
    if (!value || !(*value * factor >= 1) || !(*value * factor <= 0x1p50)) return std::nullopt;
    return std::uint64_t(*value * factor);
  }
  return std::nullopt;
}

}  // namespace

CLI::Validator byte_size(const std::string& flag) {
  return CLI::Validator(
      [=](std::string& text) {
        if (parse_bytes(text)) return std::string();
        throw ConfigError(
            fmt::format("{} is '{}', expected none or a number of bytes", flag, as_written(text)),
            fmt::format("for example {} 512MiB or {} 16GiB", flag, flag));
      },
      "");
}

std::uint64_t to_bytes(const std::string& text) { return parse_bytes(text).value_or(0); }

namespace {

std::optional<Interval> parse_interval(const std::string& text) {
  constexpr double kMaxSeconds = 1e9;
  constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;
  constexpr std::pair<std::string_view, double> kUnits[] = {{"s", 1}, {"m", 60}, {"h", 3600}};
  std::string number = text.ends_with("steps") ? text.substr(0, text.size() - 5) : text;
  if (const auto steps = parse<std::int64_t>(number)) {
    if (*steps < 0 || *steps > kMaxSteps) return std::nullopt;
    return Interval{*steps, 0};
  }
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = parse<double>(text.substr(0, text.size() - 1));
    if (!value || !(*value > 0) || !(*value * factor <= kMaxSeconds)) return std::nullopt;
    return Interval{0, *value * factor};
  }
  return std::nullopt;
}

}  // namespace

CLI::Validator interval(const std::string& flag) {
  return CLI::Validator(
      [=](std::string& text) {
        if (parse_interval(text)) return std::string();
        throw ConfigError(
            fmt::format("{} is '{}', expected a number of steps, seconds, minutes or hours",
                        flag,
                        as_written(text)),
            fmt::format("for example {0} 500, {0} 90s, {0} 10m, {0} 1h, or {0} 0 for never", flag));
      },
      "");
}

Interval to_interval(const std::string& text) { return parse_interval(text).value_or(Interval{}); }

CLI::Validator one_of(const std::string& flag, std::vector<std::string_view> words) {
  return CLI::Validator(
      [=](std::string& text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        const std::string best = nearest(text, words);
        throw ConfigError(
            fmt::format("{} is '{}', expected {}", flag, as_written(text), list_of(words)),
            best.empty() ? std::string() : fmt::format("did you mean {} {}?", flag, best));
      },
      "");
}

double to_real_number(const std::string& text) { return parse<double>(text).value_or(0); }

std::int64_t to_whole_number(const std::string& text) {
  return parse<std::int64_t>(text).value_or(0);
}

bool is_number(const std::string& text) {
  const auto value = parse<double>(text);
  return value && std::isfinite(*value);
}

bool to_bool(const std::string& flag, const std::string& text) {
  constexpr std::string_view kTrue[] = {"true", "t", "on", "yes", "y", "enable", "1"};
  constexpr std::string_view kFalse[] = {"false", "f", "off", "no", "n", "disable", "0"};
  const std::string word = CLI::detail::to_lower(text);
  if (std::ranges::find(kTrue, word) != std::end(kTrue)) return true;
  if (std::ranges::find(kFalse, word) != std::end(kFalse)) return false;
  throw ConfigError(fmt::format("{} is '{}', expected true or false", flag, as_written(text)));
}

std::string list_of(const std::vector<std::string_view>& words) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) result += i + 1 == words.size() ? " or " : ", ";
    result += words[i];
  }
  return result;
}

ImageSizes to_image_sizes(const std::string& flag, const std::string& text, int most) {
  const std::size_t colon = text.find(':');
  const auto side = [&, check = whole_number(flag, 1, most)](const std::string& one) {
    std::string checked = one;
    check(checked);
    return int(to_whole_number(checked));
  };
  if (colon == text.npos) return {side(text), side(text)};
  const ImageSizes sizes{side(text.substr(0, colon)), side(text.substr(colon + 1))};
  if (sizes.first > sizes.last)
    throw ConfigError(fmt::format("{} '{}': expected a first size of at most the last, as images "
                                  "grow",
                                  flag,
                                  as_written(text)),
                      fmt::format("for example {} {}:{}", flag, sizes.last, sizes.first));
  return sizes;
}

}  // namespace lockstep
