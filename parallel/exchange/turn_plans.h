// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lockstep/schedule.h"
#include "parallel/exchange/exchange_plan.h"

namespace lockstep {

/// Note [Sharded gradients]. With Sharding::gradients (after ZeRO-2, Rajbhandari et al. 2020) no
/// rank keeps sums of whole gradients. Ranks take turns with shards: of R ranks, rank r computes in
/// turn t shard t R + r (a Schedule that is dealt). After each turn the gradients of its R shards
/// are exchanged as those of a step are otherwise, with one node a rank: each piece of a bucket
/// goes to the rank that owns it. The owner has then R neighbouring leaves of the tree of Note
/// [Reduction tree] more, and sums up what that completes: of the shards that are done, it keeps
/// the largest nodes of the tree, as a binary counter does, one for each bit set in their number.
/// After the last turn that is the whole tree, so the bits are those without sharding. A large
/// bucket that is not sharded (of metrics and statistics) goes the same way, and all ranks gather
/// its sum after the last turn. A small bucket is gathered whole in each turn, and each rank keeps
/// its sums whole.
///
/// Of V shards and P elements, sums take P / R elements times the most bits that are set in a
/// multiple of R below V (of 64 shards 5 on 2 ranks, 4 on 4, 3 on 8). Without sharding a rank
/// of V / R shards, a power of two, keeps log2(V / R) P elements (5 P, 4 P, 3 P): R times as many.
/// The price is the wire: a rank sends its gradients' pieces after each turn, ceil(V / R) times a
/// step, weights once. And ranks wait for each other after each turn, as long as its longest shard
/// takes, where with consecutive shards they wait once a step. So nothing is lost where the number
/// of micro-batches is a multiple of the shards, and the shards are one of the ranks; 80
/// micro-batches in 64 shards on 8 ranks keep them busy for 62.5%, consecutive ones for all of it.
///
/// The gradients of the shard that a rank computes are divided as well where shards are of one
/// micro-batch: Note [Gradient window] in gradient_space.h.
///
/// Where ranks form clusters (ScheduleSettings), the slots are apart in the tree, and an owner
/// keeps the nodes of each.

/// Of each turn of a dealt schedule what is equal on every rank; and the part of `rank` in one of
/// them, with the turn's `owners`. ExchangeSize::nodes is the number of ranks in all of them, so
/// that every bucket goes the same way in each turn.
std::vector<CommonPlan> make_common_turns(const PresentLeaves& present,
                                          const Schedule& schedule,
                                          int ranks_per_host);
ExchangePlan turn_of_rank(std::shared_ptr<const CommonPlan> common,
                          const PresentLeaves& present,
                          std::span<const ShardRange> owners,
                          int rank,
                          int ranks_per_host);
/// Both, of all turns.
std::vector<ExchangePlan> make_turn_plans(const Schedule& schedule, int rank, int ranks_per_host);

/// Places for kept sums that every dealt schedule of at most `max_shards` shards finds enough.
int max_kept_sums(int max_shards, int ranks, int cluster);

}  // namespace lockstep
