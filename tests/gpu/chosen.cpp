// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/chosen.h"

#include "core/base/check.h"

namespace lockstep::rates {
namespace {

constexpr std::size_t kMaxDigits = 24;

/// What stands before `end`, which is taken off `text` with it.
std::string take_until(std::string_view& text, char end) {
  const std::size_t length = text.find(end);
  LOCKSTEP_ASSERT(length != std::string_view::npos);
  std::string field(text.substr(0, length));
  text.remove_prefix(length + 1);
  return field;
}

/// cuBLASLt's algorithms are 64 bytes, of which the first tell most apart.
std::string shortened(const std::string& algorithm) {
  const std::size_t last = algorithm.rfind(' ') + 1;  // 0 where there is one word
  if (algorithm.size() - last <= kMaxDigits) return algorithm;
  return algorithm.substr(0, last + kMaxDigits) + "...";
}

}  // namespace

std::vector<Chosen> chosen_in(std::string_view choices) {
  std::vector<Chosen> all;
  while (!choices.empty()) {
    Chosen chosen;
    chosen.what = take_until(choices, '\t');
    chosen.algorithm = take_until(choices, '\t');
    chosen.why_none = take_until(choices, '\n');
    all.push_back(std::move(chosen));
  }
  return all;
}

std::string words_of(const Chosen& chosen) {
  if (chosen.algorithm.empty())
    return fmt::format("fallback, as {} was refused: {}", chosen.what, chosen.why_none);
  return fmt::format("{}: {}", chosen.what, shortened(chosen.algorithm));
}

}  // namespace lockstep::rates
