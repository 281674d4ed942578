// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// What a rank has sent to others. `network`: to those on other hosts, as far as
/// Communicator::ranks_per_node() and the library, where that sums, let one know.
struct SentBytes {
  std::uint64_t all = 0, network = 0;
  SentBytes& operator+=(const SentBytes& other) {
    all += other.all;
    network += other.network;
    return *this;
  }
  SentBytes operator+(const SentBytes& other) const {
    return {all + other.all, network + other.network};
  }
  SentBytes operator-(const SentBytes& other) const {
    return {all - other.all, network - other.network};
  }
};

/// How far the step's shards are: equal places, of equal schedules, continue alike.
struct ShardPlace {
  int finished = 0;
  int pending = 0;  ///< sums of them
  int merges = 0;   ///< of those with the next shard
};

}  // namespace lockstep
