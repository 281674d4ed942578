// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Checks of one flag's text, for CLI11's Option::check(). They throw ConfigError with a hint
/// themselves, since CLI11's messages have none.
CLI::Validator whole_number(const std::string& flag, std::int64_t least, std::int64_t most);
/// `word` or a whole number in [least, most].
CLI::Validator whole_number_or(const std::string& flag,
                               const std::string& word,
                               std::int64_t least,
                               std::int64_t most);
/// A finite number in [least, most].
CLI::Validator real_number(const std::string& flag, double least, double most);
/// `word` or such a number.
CLI::Validator real_number_or(const std::string& flag,
                              const std::string& word,
                              double least,
                              double most);
/// "none", or bytes with an optional unit: 4096, 512MiB, 16GiB, 2GB.
CLI::Validator byte_size(const std::string& flag);
/// The bytes of a text that was checked; "none" is 0.
std::uint64_t to_bytes(const std::string& text);
/// How often: a number of steps or of seconds.
struct Interval {
  std::int64_t steps = 0;
  double seconds = 0;
};
/// 500, 500steps, 90s, 10m, 1.5h or 0.
CLI::Validator interval(const std::string& flag);
/// The interval of a text that was checked.
Interval to_interval(const std::string& text);
/// Of images that may grow: FIRST:LAST, or N for both.
struct ImageSizes {
  int first = 0, last = 0;
};
/// Throws ConfigError naming `flag`: not sides of 1 to `most` pixels, the first at most the last.
ImageSizes to_image_sizes(const std::string& flag, const std::string& text, int most);
/// One of `words`; the nearest one is offered.
CLI::Validator one_of(const std::string& flag, std::vector<std::string_view> words);

/// The number of a text that was checked; `word` (or anything else that is not a number) gives 0.
std::int64_t to_whole_number(const std::string& text);
double to_real_number(const std::string& text);

/// Whether `text` is a finite number as the checks above read it.
bool is_number(const std::string& text);
/// true, t, on, yes, y, enable or 1; false, f, off, no, n, disable or 0; in any case. Throws
/// ConfigError naming `flag`.
bool to_bool(const std::string& flag, const std::string& text);

/// "a, b or c"
std::string list_of(const std::vector<std::string_view>& words);

}  // namespace lockstep
