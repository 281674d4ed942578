// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/suggest.h"

namespace lockstep::data {
namespace {

constexpr int kMaxPixels = 64;
constexpr double kSmallestShare = 0.08;
constexpr double kMinAlpha = 0.01, kMaxAlpha = 100;

/// A word of the list, and the numbers after its colon.
struct Item {
  std::string_view text, word;
  std::vector<double> values;
};

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

/// Throws ConfigError: something after the colon is not a number.
Item item_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  Item item{text, text.substr(0, colon), {}};
  if (colon == text.npos) return item;
  for (std::size_t begin = colon + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto number = number_of(text.substr(begin, end - begin));
    LOCKSTEP_CHECK(number, ConfigError, "`augment`: expected a number in '{}'", as_written(text));
    item.values.push_back(*number);
    begin = end + 1;
  }
  return item;
}

/// Value `index` of the item, from low to high, or `otherwise` where it has fewer.
double value(const Item& item,
             std::size_t index,
             const char* what,
             double low,
             double high,
             double otherwise) {
  if (index >= item.values.size()) return otherwise;
  const double number = item.values[index];
  LOCKSTEP_CHECK(number >= low && number <= high,
                 ConfigError,
                 "`augment`: expected {} of {} to {} in '{}'",
                 what,
                 low,
                 high,
                 as_written(item.text));
  return number;
}

int whole(const Item& item, std::size_t index, const char* what, int low, int high, int otherwise) {
  const double number = value(item, index, what, low, high, otherwise);
  LOCKSTEP_CHECK(number == double(int(number)),
                 ConfigError,
                 "`augment`: expected a whole number of {} in '{}'",
                 what,
                 as_written(item.text));
  return int(number);
}

void expect_values(const Item& item, std::size_t most) {
  LOCKSTEP_CHECK(item.values.size() <= most,
                 ConfigError,
                 "`augment`: '{}' takes {}, got '{}'",
                 item.word,
                 most == 0   ? std::string("no value")
                 : most == 1 ? std::string("one value")
                             : fmt::format("at most {} values", most),
                 as_written(item.text));
}

ColorJitter jitter_of(const Item& item) {
  const std::size_t count = item.values.size();
  LOCKSTEP_CHECK(count == 1 || count == 3 || count == 4,
                 ConfigError,
                 "`augment`: expected jitter:BRIGHTNESS[,CONTRAST,SATURATION[,HUE]], got '{}'",
                 as_written(item.text));
  constexpr double kMaxChange = 10;
  const double all = value(item, 0, "a change", 0, kMaxChange, 0);
  const ColorJitter jitter{float(all),
                           float(value(item, 1, "a change", 0, kMaxChange, all)),
                           float(value(item, 2, "a change", 0, kMaxChange, all)),
                           float(value(item, 3, "a hue", 0, 0.5, 0))};
  LOCKSTEP_CHECK(
      !jitter.none(), ConfigError, "`augment`: '{}' changes nothing", as_written(item.text));
  return jitter;
}

constexpr std::array<std::string_view, 13> kWords{"none",
                                                  "shift",
                                                  "flip",
                                                  "alternating-flip",
                                                  "crop",
                                                  "reflect",
                                                  "resized-crop",
                                                  "jitter",
                                                  "randaugment",
                                                  "trivialaugment",
                                                  "erasing",
                                                  "mixup",
                                                  "cutmix"};

[[noreturn]] void refuse(const Item& item) {
  if (item.word == "none")
    throw ConfigError(
        fmt::format("`augment`: 'none' cannot be combined with others, got '{}' among them",
                    as_written(item.text)));
  std::string words;
  for (const std::string_view word : std::span(kWords).subspan(1))
    words += fmt::format("{}, ", word);
  const std::string near = nearest(item.word, kWords);
  throw ConfigError(
      fmt::format("`augment`: expected {}or none, got '{}'", words, as_written(item.text)),
      near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

void add(const Item& item, Augmentation& result) {
  const auto once = [&](bool fresh, std::size_t most_values) {
    LOCKSTEP_CHECK(fresh, ConfigError, "`augment`: '{}' is given twice", item.word);
    expect_values(item, most_values);
  };
  if (item.word == "shift") {
    once(result.shift == 0, 1);
    result.shift = whole(item, 0, "pixels", 1, kMaxPixels, 2);
  } else if (item.word == "crop") {
    once(result.crop == 0, 1);
    result.crop = whole(item, 0, "pixels", 1, kMaxPixels, 4);
  } else if (item.word == "resized-crop") {
    once(result.resized_crop == 0, 1);
    result.resized_crop = value(item, 0, "a share", 0.001, 1, kSmallestShare);
  } else if (item.word == "flip") {
    once(!result.flip, 0);
    result.flip = true;
  } else if (item.word == "alternating-flip") {
    once(!result.alternating_flip, 0);
    result.alternating_flip = true;
  } else if (item.word == "reflect") {
    once(!result.reflect, 0);
    result.reflect = true;
  } else if (item.word == "jitter") {
    once(result.jitter.none(), 4);
    result.jitter = jitter_of(item);
  } else if (item.word == "randaugment") {
    once(result.rand_operations == 0, 2);
    result.rand_operations = whole(item, 0, "operations", 1, 14, 2);
    result.rand_magnitude = whole(item, 1, "magnitude", 0, 30, 9);
  } else if (item.word == "trivialaugment") {
    once(!result.trivial, 0);
    result.trivial = true;
  } else if (item.word == "erasing") {
    once(result.erasing == 0, 1);
    result.erasing = value(item, 0, "a probability", 0.001, 1, 0.5);
  } else if (item.word == "mixup") {
    once(result.mixup == 0, 1);
    result.mixup = value(item, 0, "an alpha", kMinAlpha, kMaxAlpha, 0.2);
  } else if (item.word == "cutmix") {
    once(result.cutmix == 0, 1);
    result.cutmix = value(item, 0, "an alpha", kMinAlpha, kMaxAlpha, 1);
  } else {
    refuse(item);
  }
}

/// The end of the item that begins at `begin`: a comma ahead of a number belongs to it.
std::size_t end_of_item(std::string_view text, std::size_t begin) {
  std::size_t end = text.find(',', begin);
  while (end != text.npos && end + 1 < text.size() && text[end + 1] >= '0' && text[end + 1] <= '9')
    end = text.find(',', end + 1);
  return std::min(end, text.size());
}

}  // namespace

std::string Augmentation::to_string() const {
  std::string text;
  if (resized_crop > 0) text += fmt::format(",resized-crop:{}", resized_crop);
  if (shift > 0) text += fmt::format(",shift:{}", shift);
  if (flip) text += ",flip";
  if (alternating_flip) text += ",alternating-flip";
  if (crop > 0) text += fmt::format(",crop:{}", crop);
  if (reflect) text += ",reflect";
  if (!jitter.none())
    text += fmt::format(
        ",jitter:{},{},{},{}", jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue);
  if (rand_operations > 0)
    text += fmt::format(",randaugment:{},{}", rand_operations, rand_magnitude);
  if (trivial) text += ",trivialaugment";
  if (erasing > 0) text += fmt::format(",erasing:{}", erasing);
  if (mixup > 0) text += fmt::format(",mixup:{}", mixup);
  if (cutmix > 0) text += fmt::format(",cutmix:{}", cutmix);
  return text.empty() ? "none" : text.substr(1);
}

void Augmentation::validate() const {
  LOCKSTEP_CHECK(!(flip && alternating_flip),
                 ConfigError,
                 "`augment`: 'flip' and 'alternating-flip' cannot be combined, got '{}'",
                 to_string());
  LOCKSTEP_CHECK(!reflect || shift > 0 || crop > 0,
                 ConfigError,
                 "`augment`: 'reflect' says what 'shift' and 'crop' bring in, and '{}' has neither",
                 to_string());
}

Augmentation parse_augmentation(std::string_view text) {
  Augmentation result;
  if (text == "none") return result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = end_of_item(text, begin);
    add(item_of(text.substr(begin, end - begin)), result);
    begin = end + 1;
  }
  result.validate();
  return result;
}

}  // namespace lockstep::data
