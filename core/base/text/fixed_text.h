// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace lockstep {

/// `text`, as much as there is room for, and a 0.
template <std::size_t N>
void set_text(char (&to)[N], std::string_view text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::copy_n(text.begin(), length, to);
  to[length] = 0;
}

}  // namespace lockstep
