// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/suggest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

bool same(char a, char b) { return lower(a) == lower(b); }

bool begins_with(std::string_view text, std::string_view beginning) {
  return beginning.size() >= 2 && beginning.size() <= text.size() &&
         std::equal(beginning.begin(), beginning.end(), text.begin(), same);
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // Rows i-2, i-1 and i of the dynamic program.
  std::vector<int> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = int(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  int best_distance = 0;
  for (std::string_view candidate : candidates) {
    const int shorter = int(std::min(word.size(), candidate.size()));
    const int longer = int(std::max(word.size(), candidate.size()));
    const bool beginning = begins_with(candidate, word) || begins_with(word, candidate);
    // The distance is at least the difference in length; words of megabytes need not be compared.
    if (!beginning && longer - shorter > std::max(2, longer / 3)) continue;
    const int distance = edit_distance(word, candidate);
    const bool near = distance <= std::max(2, longer / 3) && distance < shorter;
    if (!near && !beginning) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

}  // namespace lockstep
