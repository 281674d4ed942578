// SPDX-License-Identifier: Apache-2.0
#include "launcher/sweep/search_space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/random.h"
#include "core/base/xxh64.h"

namespace lockstep {
namespace {

constexpr std::size_t kLongestFolder = 120;

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw ConfigError(
      fmt::format("--vary '{}': {}", as_written(std::string(text)), why),
      "--vary lr=0.1,0.01 or 'augment=flip,crop|flip' or lr=log:1e-4..1e-1 (uniform:, whole:)");
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

double number_in(std::string_view text, std::string_view whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    refuse(whole, fmt::format("'{}' is not a number", text));
  return value;
}

/// Nothing: `values` does not begin as a range does.
std::optional<ValueRange> parse_range(std::string_view values, std::string_view whole) {
  using Scale = ValueRange::Scale;
  for (const auto& [word, scale] : {std::pair{std::string_view("uniform:"), Scale::uniform},
                                    std::pair{std::string_view("log:"), Scale::log},
                                    std::pair{std::string_view("whole:"), Scale::whole}}) {
    if (!values.starts_with(word)) continue;
    values.remove_prefix(word.size());
    const std::size_t dots = values.find("..");
    if (dots == std::string_view::npos) refuse(whole, "a range is LEAST..MOST");
    const ValueRange range{
        scale, number_in(values.substr(0, dots), whole), number_in(values.substr(dots + 2), whole)};
    if (range.least >= range.most) refuse(whole, "the range's first number is to be the smaller");
    if (scale == Scale::log && range.least <= 0)
      refuse(whole, "a log range holds positive numbers alone");
    constexpr double kMaxWhole = 1e15;
    if (scale == Scale::whole &&
        (range.least != std::floor(range.least) || range.most != std::floor(range.most) ||
         std::abs(range.least) > kMaxWhole || std::abs(range.most) > kMaxWhole))
      refuse(whole, "a whole range has whole numbers of at most 1e15");
    return range;
  }
  return std::nullopt;
}

/// Uniform in [0, 1), by counter.
double uniform_number(std::uint64_t seed, std::uint64_t draw, std::uint64_t setting) {
  const RandomBlock block = philox(random_key(seed, "sweep"), draw, setting);
  return double((std::uint64_t{block[0]} << 21) ^ (block[1] >> 11)) * 0x1p-53;
}

/// `value`, which lies in the range, in as few digits as leave it there, four at least.
std::string rounded_within(const ValueRange& range, double value) {
  for (int digits = 4; digits < 17; ++digits) {
    const std::string text = fmt::format("{:.{}g}", value, digits);
    const double back = std::strtod(text.c_str(), nullptr);
    // To the range's width, not to the number's size: 1e5 to 1e5 + 50 has fifty values.
    const double width = range.most - range.least;
    const double whole =
        range.scale == ValueRange::Scale::log ? std::min(std::abs(value), width) : width;
    if (back >= range.least && back <= range.most && std::abs(back - value) <= 5e-4 * whole)
      return text;
  }
  return fmt::format("{:.17g}", value);
}

std::string value_at(const VariedSetting& setting, double u) {
  if (!setting.range) return setting.values[std::size_t(u * double(setting.values.size()))];
  const auto& [scale, least, most] = *setting.range;
  switch (scale) {
    case ValueRange::Scale::whole:
      return fmt::format("{:.0f}", std::min(most, least + std::floor(u * (most - least + 1))));
    case ValueRange::Scale::log:
      return rounded_within(*setting.range, least * std::pow(most / least, u));
    case ValueRange::Scale::uniform:
      break;
  }
  return rounded_within(*setting.range, least + u * (most - least));
}

}  // namespace

VariedSetting parse_varied(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) refuse(text, "expected SETTING=VALUES");
  VariedSetting setting;
  setting.name = text.substr(0, equals);
  while (setting.name.starts_with('-')) setting.name.erase(0, 1);
  if (setting.name.empty()) refuse(text, "expected SETTING=VALUES");
  const std::string_view values = text.substr(equals + 1);
  setting.range = parse_range(values, text);
  if (setting.range) return setting;
  setting.values = split(values, values.find('|') == std::string_view::npos ? ',' : '|');
  for (std::size_t i = 0; i < setting.values.size(); ++i) {
    if (setting.values[i].empty()) refuse(text, "a value is empty");
    if (std::find(setting.values.begin(),
                  setting.values.begin() + std::ptrdiff_t(i),
                  setting.values[i]) != setting.values.begin() + std::ptrdiff_t(i))
      refuse(text, fmt::format("the value {} is there twice", setting.values[i]));
  }
  return setting;
}

std::vector<Configuration> grid_of(const std::vector<VariedSetting>& varied) {
  std::vector<Configuration> all{{}};
  for (const VariedSetting& setting : varied) {
    if (setting.range)
      throw ConfigError(fmt::format("--vary {}: a range has no grid", setting.name),
                        "list its values, or draw combinations with --random N");
    if (all.size() > kMaxConfigurations / setting.values.size())
      throw ConfigError(fmt::format("--vary: more than {} combinations", kMaxConfigurations),
                        "--random N draws some of them");
    std::vector<Configuration> longer;
    for (const Configuration& shorter : all)
      for (const std::string& value : setting.values) {
        longer.push_back(shorter);
        longer.back().emplace_back(setting.name, value);
      }
    all = std::move(longer);
  }
  return all;
}

std::vector<Configuration> draw_from(const std::vector<VariedSetting>& varied,
                                     std::size_t count,
                                     std::uint64_t seed) {
  std::vector<Configuration> drawn;
  std::set<Configuration> known;
  // A draw that is there already is skipped; where few are left, most are.
  const std::size_t tries = 1000 + 100 * count;
  for (std::size_t draw = 0; drawn.size() < count && draw < tries; ++draw) {
    Configuration configuration;
    for (std::size_t i = 0; i < varied.size(); ++i)
      configuration.emplace_back(varied[i].name,
                                 value_at(varied[i], uniform_number(seed, draw, i)));
    if (known.insert(configuration).second) drawn.push_back(std::move(configuration));
  }
  if (drawn.size() < count)
    throw ConfigError(
        fmt::format("--random {}: {} different combinations were found", count, drawn.size()),
        "a grid, without --random, runs all of them");
  return drawn;
}

std::string configuration_text(const Configuration& configuration) {
  std::string words;
  for (const auto& [name, value] : configuration)
    words += fmt::format("{}{}={}", words.empty() ? "" : ", ", name, value);
  return words;
}

std::string folder_of(const Configuration& configuration) {
  std::string whole, name;
  for (const auto& [setting, value] : configuration)
    whole += fmt::format("{}{}={}", whole.empty() ? "" : "_", setting, value);
  for (const char c : whole) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '=' || c == '_' || c == '-' || c == '+' || c == '.';
    name += plain ? c : '-';
  }
  if (name == whole && name.size() <= kLongestFolder) return name;
  return fmt::format(
      "{}-{:016x}", name.substr(0, kLongestFolder), xxh64(whole.data(), whole.size()));
}

}  // namespace lockstep
