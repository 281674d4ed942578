// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "lockstep/schedule.h"
#include "lockstep/train_options.h"
#include "parallel/exchange/hierarchical_reduction.h"
#include "parallel/exchange/tree_sum.h"

namespace lockstep {

/// What an exchange's memory follows from.
struct ExchangeSize {
  int nodes = 0;      ///< that all ranks are left with
  int own_nodes = 0;  ///< of those, this rank's
  int depth = 0;      ///< LocalTree::depth of this rank
  /// Of a bucket, which this rank receives before its last sum.
  std::int64_t received_chunks = 0;
};

/// How the ranks of one schedule share the work of the reduction tree, as far as it is equal on
/// every rank: ranks of one process have it together.
struct CommonPlan {
  LevelPlan all;                          ///< over all ranks: the nodes that they are left with
  bool equal_counts = false;              ///< every rank has as many
  std::optional<LevelPlan> across_hosts;  ///< nothing: one level
  bool keeps = false;  ///< owners keep the sums, which are not gathered: TurnSums
};

/// That of one rank. Made once for each kind of batch (whole, tail) and kept.
struct ExchangePlan {
  LocalTree local;
  ExchangeSize size;
  std::shared_ptr<const CommonPlan> common;
  LevelPlan on_host;  ///< where there are two levels

  const LevelPlan& all() const { return common->all; }
  bool has_two_levels() const { return common->across_hosts.has_value(); }
  const LevelPlan& across_hosts() const { return *common->across_hosts; }
};

/// Of shards `present`, of which `owners` compute some before an exchange. With Reduction::fast
/// each rank adds up all that it has, whatever the tree says. `turn`: of Note [Sharded gradients];
/// null: shards are consecutive.
CommonPlan make_common_plan(const PresentLeaves& present,
                            std::span<const ShardRange> owners,
                            int ranks_per_host,
                            Reduction reduction,
                            const TurnSums* turn = nullptr);

/// The part of `rank`, of the same arguments.
ExchangePlan plan_of_rank(std::shared_ptr<const CommonPlan> common,
                          const PresentLeaves& present,
                          std::span<const ShardRange> owners,
                          int rank,
                          int ranks_per_host,
                          Reduction reduction);

/// Both, of all shards that owners have.
ExchangePlan make_exchange_plan(int shards,
                                std::span<const ShardRange> owners,
                                int rank,
                                int ranks_per_host,
                                Reduction reduction);

/// The sizes of the plans of all ranks, in less time: memory is reserved for many plans, one of
/// which is made. Hosts are not known: received_chunks is that of MaxReceivedChunks, so that memory
/// is the same wherever ranks run.
class ExchangeSizes {
 public:
  ExchangeSizes(int shards, std::vector<ShardRange> owners, Reduction reduction);
  ExchangeSizes(const ExchangeSizes&) = delete;
  ExchangeSizes& operator=(const ExchangeSizes&) = delete;

  ExchangeSize of(int rank) const;

 private:
  std::vector<ShardRange> owners_;
  PresentLeaves present_;
  std::vector<int> counts_;  // nodes of each rank
  int nodes_;
  std::optional<MaxReceivedChunks> received_;  // nothing: none
};
/// That of `rank`.
ExchangeSize exchange_size(int shards,
                           std::span<const ShardRange> owners,
                           int rank,
                           Reduction reduction);

/// At least exchange_size() of `rank` in every schedule of `shards` shards or fewer, on clusters of
/// any size, absent shards or not. The depth is that of the deepest schedule, as each level is an
/// array as large as the gradients. The others follow from the longest range, of
/// m = ceil(shards / ranks): at most max_run_nodes(m) nodes of a rank, and what LevelPlan says of
/// hosts.
ExchangeSize max_exchange_size(int shards, int ranks, int rank, Reduction reduction);

/// How many nodes of the tree the exchange sends, before anything is made of it, of ranges that
/// hold some of the shards `present`.
struct ExchangeNodes {
  std::vector<int> of_ranks;
  std::vector<int> of_hosts;  ///< empty: one level
};
ExchangeNodes exchange_nodes(const PresentLeaves& present,
                             std::span<const ShardRange> owners,
                             int ranks_per_host,
                             Reduction reduction);

/// The leaves of `finish` as Backend::sum_tree() takes them. operands: [nodes], terms: [nodes].
void to_terms(const FinishTree& finish,
              std::span<float* const> operands,
              std::span<TreeTerm> terms);

/// `count` chunks of a bucket from number `first` on, of one for each rank: equal sizes in units of
/// kChunkUnit, the last ones shorter where the bucket is not padded.
CommBlock chunks_of(std::int64_t elems, int first, int count, int ranks);

}  // namespace lockstep
