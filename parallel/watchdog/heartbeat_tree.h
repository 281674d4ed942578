// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::watch {

/// Who watches whom: every rank but 0 has one parent, which it holds a connection to. Free of
/// sockets and clocks.
///
/// Up to fan_out + 1 ranks are a star around rank 0. Of more, the first ranks of hosts are a tree
/// in rank order, with rank 0 as its root: the i-th has the ((i - 1) / fan_out)-th as its parent.
/// The other ranks of a host hang below its first one in the same way. So a rank has at most
/// 2 fan_out children, its depth is at most the sum of the two trees' depths, each below
/// log_fan_out(n (fan_out - 1) + 1) for n ranks or hosts, a parent is lower than its children, and
/// no more than one connection of a host leaves it upwards.
class HeartbeatTree {
 public:
  /// Two levels of hosts below rank 0's are 1,057 hosts, three 33,825; no rank holds more than 65
  /// connections, where processes may open 1,024 files at first; and runs of up to 33 ranks, four
  /// hosts of eight GPUs, have no rank between theirs and rank 0 that may fail.
  static constexpr int kFanOut = 32;

  /// hosts[r]: equal for the ranks that share a host. `fan_out` of at least 2.
  explicit HeartbeatTree(std::span<const int> hosts, int fan_out = kFanOut);

  int ranks() const { return int(parents_.size()); }
  /// -1: rank 0's.
  int parent(int rank) const { return parents_[std::size_t(rank)]; }
  /// In rank order.
  std::span<const int> children(int rank) const;
  bool has_children(int rank) const { return subtree_size(rank) > 1; }
  /// The rank and all below it.
  int subtree_size(int rank) const { return sizes_[std::size_t(rank)]; }
  /// In rank order, without `rank` itself.
  std::vector<int> ranks_below(int rank) const;
  /// Connections between it and rank 0.
  int depth(int rank) const;
  /// Of the deepest rank.
  int depth() const;
  /// As the constructor has it.
  int host(int rank) const { return hosts_[std::size_t(rank)]; }

 private:
  std::vector<int> hosts_, parents_, sizes_;
  std::vector<int> children_, first_child_;  // those of r: from first_child_[r] to that of r + 1
};

}  // namespace lockstep::watch
