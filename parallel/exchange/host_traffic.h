// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/plan/flat_space.h"
#include "lockstep/schedule.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// What the gradient exchange of a step sends between hosts, in bytes, apart from the rounding of
/// chunks; with a sharded optimizer the weights' all-gather included, but not norms and Muon's
/// matrices.
struct HostTraffic {
  int hosts = 1;
  int levels = 1;  ///< see Note [Two levels] in hierarchical_reduction.h
  double all = 0;  ///< that leaves hosts
  /// Through the adapter of the host that has most: the more of what it sends and receives, as
  /// adapters do both at once.
  double busiest = 0;
};

/// Of ranks that own shards as `owners` says, `ranks_per_host` consecutive ones on each host and
/// perhaps fewer on the last. With q_r nodes of rank r, Q_h of host h's R_h ranks, k_h of host h
/// and sums Q and K over all, of N ranks on H hosts, host h sends and receives of a bucket of n
/// bytes
///   small, gathered whole   n Q_h (N - R_h)              n R_h (Q - Q_h)
///   one level               n / N (N - R_h) (Q_h + R_h)  n / N R_h (Q - Q_h + N - R_h)
///   two levels              n / H (H - 1) (k_h + 1)      n / H (K - k_h + H - 1)
///   (of a sharded bucket, its weight_bytes() are gathered in place of n: the summands R_h, N -
///   R_h, 1 and H - 1 times their share of n)
///
///   Reduction::fast         2 n (N - 1) / N, as a ring of all ranks, small ones gathered
HostTraffic host_traffic(std::span<const Bucket> buckets,
                         int shards,
                         std::span<const ShardRange> owners,
                         int ranks_per_host,
                         Reduction reduction);
/// The same of a step of `schedule`, summed over its turns: small buckets are gathered whole in
/// each, of the others sums and weights in the last one.
HostTraffic host_traffic(std::span<const Bucket> buckets,
                         const Schedule& schedule,
                         int ranks_per_host,
                         Reduction reduction);

}  // namespace lockstep
