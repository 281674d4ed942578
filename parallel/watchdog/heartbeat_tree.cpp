// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_tree.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/check.h"

namespace lockstep::watch {
namespace {

/// Of the member at `place` of a tree whose members are listed level by level.
std::size_t place_of_parent(std::size_t place, int fan_out) {
  return (place - 1) / std::size_t(fan_out);
}

}  // namespace

HeartbeatTree::HeartbeatTree(std::span<const int> hosts, int fan_out)
    : hosts_(hosts.begin(), hosts.end()),
      parents_(hosts.size(), 0),
      sizes_(hosts.size(), 1),
      first_child_(hosts.size() + 1, 0) {
  LOCKSTEP_ASSERT(!hosts.empty() && fan_out >= 2);
  const int count = ranks();
  parents_[0] = -1;
  if (count > fan_out + 1) {
    std::unordered_map<int, std::vector<int>> members;
    std::vector<int> first_ranks;
    for (int r = 0; r < count; ++r) {
      std::vector<int>& host = members[hosts[std::size_t(r)]];
      if (host.empty()) first_ranks.push_back(r);
      const std::vector<int>& level = host.empty() ? first_ranks : host;
      const std::size_t place = host.empty() ? first_ranks.size() - 1 : host.size();
      if (r > 0) parents_[std::size_t(r)] = level[place_of_parent(place, fan_out)];
      host.push_back(r);
    }
  }
  for (int r = count - 1; r > 0; --r) sizes_[std::size_t(parent(r))] += sizes_[std::size_t(r)];
  // Counted, then listed.
  for (int r = 1; r < count; ++r) ++first_child_[std::size_t(parent(r)) + 1];
  for (std::size_t r = 1; r < first_child_.size(); ++r) first_child_[r] += first_child_[r - 1];
  children_.resize(std::size_t(count - 1));
  std::vector<int> next(first_child_.begin(), first_child_.end() - 1);
  for (int r = 1; r < count; ++r) children_[std::size_t(next[std::size_t(parent(r))]++)] = r;
}

std::span<const int> HeartbeatTree::children(int rank) const {
  const auto begin = std::size_t(first_child_[std::size_t(rank)]);
  const auto end = std::size_t(first_child_[std::size_t(rank) + 1]);
  return std::span(children_).subspan(begin, end - begin);
}

std::vector<int> HeartbeatTree::ranks_below(int rank) const {
  std::vector<int> found;
  found.reserve(std::size_t(subtree_size(rank)));
  found.push_back(rank);
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const int child : children(found[i])) found.push_back(child);
  found.erase(found.begin());
  std::ranges::sort(found);
  return found;
}

int HeartbeatTree::depth(int rank) const {
  int depth = 0;
  for (; parent(rank) >= 0; rank = parent(rank)) ++depth;
  return depth;
}

int HeartbeatTree::depth() const {
  int deepest = 0;
  for (int r = 0; r < ranks(); ++r) deepest = std::max(deepest, depth(r));
  return deepest;
}

}  // namespace lockstep::watch
