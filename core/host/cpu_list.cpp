// SPDX-License-Identifier: Apache-2.0
#include "core/host/cpu_list.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <sstream>
#include <system_error>

namespace lockstep {

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0, last = 0;
    const char* const end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, first);
    if (error != std::errc()) continue;
    last = first;
    if (stop != end && *stop == '-') std::from_chars(stop + 1, end, last);
    for (std::int64_t i = first; i <= last && numbers.size() < 65536; ++i)
      numbers.push_back(int(i));
  }
  return numbers;
}

std::string format_cpu_list(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text +=
        last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace lockstep
