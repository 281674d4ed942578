// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/exchange_communicators.h"

#include "core/plan/ownership.h"

namespace lockstep {

ExchangeCommunicators::ExchangeCommunicators(Communicator& all, Reduction reduction)
    : small_buckets_(&all) {
  if (all.size() > 1 && !all.in_stream_order())
    small_buckets_ = owned_.emplace_back(all.split(0, all.rank())).get();
  if (reduction == Reduction::fast || !has_two_levels(all.size(), all.ranks_per_node())) {
    add_level(all, LevelMembers::all);
  } else {
    add_level(all, LevelMembers::host);
    add_level(all, LevelMembers::across_hosts);
  }
}

void ExchangeCommunicators::add_level(Communicator& all, LevelMembers members) {
  Level& level = levels_.emplace_back(Level{members, &all, &all});
  const bool in_order = all.in_stream_order();
  if (all.size() == 1 || (members == LevelMembers::all && in_order)) return;
  const int rank = all.rank(), per_host = all.ranks_per_node();
  const int color = members == LevelMembers::all    ? 0
                    : members == LevelMembers::host ? rank / per_host
                                                    : rank % per_host;
  level.exchange = owned_.emplace_back(all.split(color, rank)).get();
  level.gather = in_order ? level.exchange : owned_.emplace_back(all.split(color, rank)).get();
}

}  // namespace lockstep
