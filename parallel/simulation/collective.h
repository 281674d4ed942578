// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/exec/communicator.h"
#include "parallel/simulation/cluster.h"

namespace lockstep::simulation {

struct Members;

/// A collective that members come to, each once.
struct Collective {
  CollectiveKind kind{};
  int root = 0;
  std::uint64_t bytes = 0;  ///< that have to be equal; of all-to-all and split, 0
  int first = 0;            ///< member that came first
  int arrived = 0;
  bool complete = false;
  double begin = 0, end = 0;
  double core_s = 0;  ///< of a core, for each member, where cores move what is sent
  std::vector<MemberBytes> sent;
  std::vector<std::byte> data;            ///< of host memory
  std::vector<std::uint64_t> maxima;      ///< of all_reduce_max
  std::vector<float> sums;                ///< of all_reduce, in the order of arrival
  std::vector<std::pair<int, int>> keys;  ///< of split: color and key by member
  std::vector<std::shared_ptr<Members>> parts;
  std::uint64_t pairs = 0;  ///< sums of pair_hash(); 0 at the end
  struct Blocks {
    const float* send = nullptr;
    float* receive = nullptr;
    std::vector<CommBlock> to;
    std::shared_ptr<const std::vector<CommBlock>> from;  // one for all of whom it is equal
  };
  std::vector<Blocks> blocks;  ///< by member, where sums are traced
  std::vector<int> waiting;    ///< ranks
};

/// Who shares a communicator.
struct Members {
  std::vector<int> ranks, hosts;      ///< by member
  std::vector<int> near;              ///< by member: members on its host
  std::vector<std::uint64_t> called;  ///< collectives, by member
  std::map<std::uint64_t, std::shared_ptr<Collective>> open;
  int ranks_per_host = 1;

  int size() const { return int(ranks.size()); }
};

std::shared_ptr<Members> make_members(const LinkTimes& links, std::vector<int> ranks);

/// Whether bytes written there can be read: in host memory, not on a device without memory.
bool holds_values(const void* memory);

/// Of elements that `from` sends to `to`: summed over pairs it tells whether what all send is what
/// all expect, without a table of pairs.
std::uint64_t pair_hash(std::size_t from, std::size_t to, std::int64_t elems);

/// Throws CommError naming both ranks: `member` calls something else than the one that came first,
/// as number `number` (from 0) of their collectives.
void expect_same(const Members& members,
                 const Collective& collective,
                 int member,
                 CollectiveKind kind,
                 std::uint64_t bytes,
                 int root,
                 std::uint64_t number);

/// All members have come: times, traces, parts of a split; wakes those that wait. Throws CommError:
/// what members of an all-to-all send is not what they expect.
void complete(Cluster& cluster, const Members& members, Collective& collective);

}  // namespace lockstep::simulation
