// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::io::torch {

/// `text` of a file for a message: other bytes than ASCII's visible ones and the space are '?', and
/// what is longer than 200 is cut.
inline std::string printable(std::string_view text) {
  constexpr std::size_t kMaxBytes = 200;
  std::string result(text.substr(0, kMaxBytes));
  for (char& c : result)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > kMaxBytes ? result + "..." : result;
}

}  // namespace lockstep::io::torch
