// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/traffic.h"

#include <bit>
#include <numeric>

namespace lockstep::simulation {

std::string_view name_of(CollectiveKind kind) {
  constexpr std::array<std::string_view, kCollectiveKinds> kNames{"barrier",
                                                                  "broadcast",
                                                                  "gather",
                                                                  "all-gather",
                                                                  "all-gather of several sizes",
                                                                  "all-reduce of integers",
                                                                  "split",
                                                                  "all-to-all",
                                                                  "all-gather of blocks",
                                                                  "all-reduce"};
  return kNames[std::size_t(kind)];
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i] += other.calls[i];
  messages += other.messages;
  bytes += other.bytes;
  network_bytes += other.network_bytes;
  return *this;
}

Traffic Traffic::operator-(const Traffic& other) const {
  Traffic left = *this;
  for (std::size_t i = 0; i < calls.size(); ++i) left.calls[i] -= other.calls[i];
  left.messages -= other.messages;
  left.bytes -= other.bytes;
  left.network_bytes -= other.network_bytes;
  return left;
}

std::uint64_t Traffic::all_calls() const {
  return std::accumulate(calls.begin(), calls.end(), std::uint64_t{0});
}

std::uint64_t message_count(CollectiveKind kind, int members) {
  if (members <= 1) return 0;
  const auto rounds = std::uint64_t(std::bit_width(unsigned(members - 1)));
  switch (kind) {
    case CollectiveKind::broadcast:
    case CollectiveKind::gather:
      return 1;
    case CollectiveKind::barrier:
    case CollectiveKind::all_gather:
    case CollectiveKind::all_reduce_max:
    case CollectiveKind::split:
      return rounds;
    case CollectiveKind::all_reduce:
      return 2 * rounds;
    case CollectiveKind::all_gather_v:
    case CollectiveKind::all_to_all:
    case CollectiveKind::gather_blocks:
      return std::uint64_t(members - 1);
  }
  return 0;
}

}  // namespace lockstep::simulation
