// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// An interval that values are drawn from, its ends included.
struct ValueRange {
  enum class Scale : std::uint8_t {
    uniform,  ///< least + u (most - least), u uniform in [0, 1)
    log,      ///< least (most / least)^u
    whole     ///< each whole number with the same probability
  };
  Scale scale = Scale::uniform;
  double least = 0, most = 0;
};

/// A setting of train that a sweep varies.
struct VariedSetting {
  std::string name;                 ///< without dashes: "lr"
  std::vector<std::string> values;  ///< to choose from, each once
  std::optional<ValueRange> range;  ///< in place of values
};

/// A value for each setting that a sweep varies.
using Configuration = std::vector<std::pair<std::string, std::string>>;

/// "lr=0.1,0.01", or with | between values that have commas; "lr=log:1e-4..1e-1",
/// "dropout=uniform:0..0.3", "layers=whole:2..8". Throws ConfigError: nothing of that kind, a value
/// twice, a range that is none.
VariedSetting parse_varied(std::string_view text);

/// All combinations, the last setting changing first. Throws ConfigError: a setting has a range;
/// more than kMaxConfigurations.
inline constexpr std::size_t kMaxConfigurations = 10'000;
std::vector<Configuration> grid_of(const std::vector<VariedSetting>& varied);

/// `count` different combinations, drawn by `seed`; those of a smaller count come first. Numbers of
/// a range are rounded to four digits, or more where they would leave it. Throws ConfigError: there
/// are not so many.
std::vector<Configuration> draw_from(const std::vector<VariedSetting>& varied,
                                     std::size_t count,
                                     std::uint64_t seed);

/// "lr=0.1, optimizer=adamw"
std::string configuration_text(const Configuration& configuration);

/// The name of a configuration's folder: "lr=0.1_optimizer=adamw". Characters that file systems,
/// shells or mpirun do not take as they are become '-', and the end of a long name is cut off, with
/// a hash of the whole in addition.
std::string folder_of(const Configuration& configuration);

}  // namespace lockstep
