// SPDX-License-Identifier: Apache-2.0
#include "core/base/rank_list.h"

#include <fmt/format.h>
#include <map>
#include <vector>

namespace lockstep {
namespace {

constexpr std::size_t kMaxPlain = 16, kMaxWithHosts = 8;

/// ranks[first] to ranks[last], which are consecutive.
struct RankRange {
  std::size_t first = 0, last = 0;
};

/// Two consecutive ranks are two ranges: "1, 2" is as short as "1-2".
template <typename Together>
std::vector<RankRange> ranges_of(std::span<const int> ranks, Together together) {
  std::vector<RankRange> ranges;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1 &&
           together(ranks[i], ranks[last + 1]))
      ++last;
    if (last - i == 1) ranges.push_back({i, i++});
    ranges.push_back({i, last});
    i = last + 1;
  }
  return ranges;
}

/// `after`: what stands after a range, given its first rank.
template <typename After>
std::string join(std::span<const int> ranks,
                 const std::vector<RankRange>& ranges,
                 std::size_t most,
                 After after) {
  std::string text;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto& [first, last] = ranges[i];
    if (i == most) return text + fmt::format(" and {} more", ranks.size() - first);
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[first]);
    if (last > first) text += fmt::format("-{}", ranks[last]);
    text += after(ranks[first]);
  }
  return text;
}

const char* noun_of(std::span<const int> ranks) { return ranks.size() == 1 ? "rank" : "ranks"; }

}  // namespace

std::string format_ranks(std::span<const int> ranks) {
  const auto ranges = ranges_of(ranks, [](int, int) { return true; });
  return fmt::format(
      "{} {}", noun_of(ranks), join(ranks, ranges, kMaxPlain, [](int) { return ""; }));
}

std::string format_ranks(std::span<const int> ranks, const TextOfRank& host_of) {
  const auto ranges =
      ranges_of(ranks, [&](int first, int next) { return host_of(first) == host_of(next); });
  const auto host = [&](int rank) { return fmt::format(" ({})", host_of(rank)); };
  return fmt::format("{} {}", noun_of(ranks), join(ranks, ranges, kMaxWithHosts, host));
}

std::string format_ranks_by_place(std::span<const int> ranks, const TextOfRank& place_of) {
  std::vector<std::string> places;
  std::map<std::string, std::vector<int>> ranks_at;
  for (const int rank : ranks) {
    const std::string place = place_of(rank);
    std::vector<int>& there = ranks_at[place];
    if (there.empty()) places.push_back(place);
    there.push_back(rank);
  }
  std::string text;
  std::size_t left = ranks.size();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == kMaxWithHosts) return text + fmt::format(" and {} more", left);
    const std::vector<int>& there = ranks_at[places[i]];
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", format_ranks(there), places[i]);
    left -= there.size();
  }
  return text;
}

}  // namespace lockstep
