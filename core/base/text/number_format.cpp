// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/number_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>

namespace lockstep {

std::string format_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, bytes < 100 ? 2 : 1, kUnits[unit]);
}

std::string format_count(double value) {
  const std::string digits = fmt::format("{:.0f}", value);
  if (!std::isfinite(value)) return digits;
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool separates = i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0;
    if (separates) result += ',';
    result += digits[i];
  }
  return result;
}

std::string format_duration(double seconds) {
  constexpr double kMax = 1e15;  // beyond, no whole number might hold it
  const auto whole = std::int64_t(std::min(kMax, std::max(0.0, std::round(seconds))));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
}

}  // namespace lockstep
