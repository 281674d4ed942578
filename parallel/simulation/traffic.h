// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::simulation {

enum class CollectiveKind : std::uint8_t {
  barrier,
  broadcast,
  gather,
  all_gather,
  all_gather_v,
  all_reduce_max,
  split,
  all_to_all,
  gather_blocks,
  all_reduce
};
inline constexpr std::size_t kCollectiveKinds = std::size_t(CollectiveKind::all_reduce) + 1;
std::string_view name_of(CollectiveKind kind);

/// What one rank asked for and sent.
struct Traffic {
  std::array<std::uint64_t, kCollectiveKinds> calls{};
  /// To other ranks, by the algorithm that libraries use for messages of that kind; see
  /// message_count().
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0, network_bytes = 0;  ///< sent; those to other hosts

  Traffic& operator+=(const Traffic& other);
  Traffic operator-(const Traffic& other) const;
  std::uint64_t all_calls() const;
};

/// Messages that a member of `members` sends: ceil(log2 members) where libraries double distances
/// or use a tree (barrier, broadcast from rank 0, small all-gathers and all-reduces: Thakur,
/// Rabenseifner and Gropp 2005; of a broadcast and a gather, the mean, (members - 1) / members,
/// counts as 1),
/// members - 1 in a ring (all-gathers of several sizes).
std::uint64_t message_count(CollectiveKind kind, int members);

}  // namespace lockstep::simulation
