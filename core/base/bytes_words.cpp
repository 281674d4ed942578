// SPDX-License-Identifier: Apache-2.0
#include "core/base/bytes_words.h"

#include <fmt/format.h>
#include <iterator>

namespace lockstep {

std::string bytes_words(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, bytes < 100 ? 2 : 1, kUnits[unit]);
}

}  // namespace lockstep
