// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/train_options.h"
#include "parallel/cost/network.h"
#include "parallel/exchange/gradient_exchange.h"

namespace lockstep {

/// Note [Cost model]. Seconds of a step on N ranks, R = min(N, ranks_per_host) on a host:
///
///   step    = compute + exposed
///   compute = crowd * shared * (fixed + per_sample * samples of a rank)
///   crowd   = max(1, R / cores)
///   shared  = 1 + (contention - 1) * min(1, (R - 1) / (cores - 1))
///
/// where ranks work on cores: ranks that share a core take turns, and ranks that share a host's
/// memory and clock slow each other down. On GPUs both are 1.
///
/// A bucket of n bytes takes, with q subtrees a rank (Note [Reduction tree]; 1 where ranks own
/// aligned shards), a latency for each message and its bytes on the wire (Hockney 1994; LogGP,
/// Alexandrov et al. 1995, has the same two terms for large messages):
///
///   large         all-to-all of chunks, all-gather of chunks, every rank to every other:
///                 2 ((R - 1) alpha_in + (N - R) alpha_out)
///                 + (1 + q) n / N ((R - 1) / B_in + R (N - R) / B_host)
///   large, on two levels (Note [Two levels] in hierarchical_reduction.h), first the R ranks of a
///   host, then
///                 those of the same place on all H = N / R hosts, each with its piece n / R:
///                 2 ((R - 1) alpha_in + (H - 1) alpha_out)
///                 + (1 + q) n (R - 1) / R / B_in + (1 + k) n (H - 1) / H / B_host
///                 with k nodes a host, 1 where its shards are a subtree
///   small         one all-gather of whole buckets in ceil(log2) rounds (Thakur et al. 2005):
///                 ceil(log2 R) alpha_in + ceil(log2 hosts) alpha_out
///                 + q n ((R - 1) / B_in + R (N - R) / B_host)
///   large, fast   all-reduce by halving and doubling (Thakur et al. 2005, Rabenseifner):
///                 2 (ceil(log2 R) alpha_in + ceil(log2 hosts) alpha_out)
///                 + 2 n (N - 1) / N * max(1 / B_in, 1 / B_host where there are several hosts)
///
/// where each link is `slowness` times what Machine says, inside and between hosts by a number of
/// its own: latencies times it, bandwidths divided by it. All times crowd, where the processor
/// itself moves the bytes. With one host the large exchange moves the well-known 2 (N - 1) / N n
/// bytes of a ring all-reduce; on two levels a host with k = 1 sends 2 (H - 1) / H n to others, as
/// a ring does, and without them R times as much. Levels of a bucket take turns, as they do where
/// collectives are stream-ordered.
///
/// With a sharded optimizer the all-gather, 1 of a large bucket's 1 + q and 1 + k parts, follows
/// the update and overlaps with nothing. It gathers weights: less than the bucket, where owners
/// send them as bf16. With sharded gradients the rest happens once a turn (Note [Sharded gradients]
/// in turn_plans.h), with a backward of the turn to overlap with.
///
/// Overlap: bucket b can travel once its share `ready` of the last micro-batch's backward is done
/// and the bucket before it is through; between hosts of GPUs once that is through the stage in
/// question, as Note [Two streams] has it with both streams at work all the time. What ends after
/// backward is exposed. `overlap`: how much of what could be hidden so is; small buckets wait for
/// the end and hide nothing.
///
/// Ranks also wait for the slowest of them before anything can travel, which a rank's clock cannot
/// tell from communication: exposed has imbalance * compute / crowd more. (On an oversubscribed
/// core one rank's wait is another's turn.)

/// A bucket of the exchange, in order of becoming complete.
struct BucketWork {
  double bytes = 0;
  double ready = 1;  ///< share of a micro-batch's backward that is done when it is complete
  double gathered_bytes = bytes;  ///< of weights, with a sharded optimizer
};

/// What a training asks of devices and network, whatever their number.
struct Workload {
  std::vector<BucketWork> buckets;
  double micro_batch = 1;           ///< samples
  double backward_share = 2.0 / 3;  ///< of a micro-batch's compute time
  Reduction reduction = Reduction::reproducible;
  Overlap overlap = Overlap::on;
};

/// Where ranks work.
struct Machine {
  Network network;
  int cores = 0;  ///< of a host, that ranks work on; 0: each rank has one of its own
  /// Each rank works on a GPU of its own, and cores do not count.
  bool on_gpus = false;
};

/// What a rank does in a step.
struct RankShare {
  int ranks = 1;
  double samples = 0;       ///< of the rank that has most
  double subtrees = 1;      ///< q, on average over ranks
  bool two_levels = false;  ///< hosts sum their shards before anything crosses the network
  double host_nodes = 1;    ///< k, on average over hosts
  bool sharded = false;     ///< the optimizer: all-gathers follow the update
  int turns = 1;            ///< exchanges of gradients, with those sharded as well
};

/// A step that was measured: means over the ranks' steps.
struct MeasuredStep {
  RankShare share;
  double step_s = 0;
  double exposed_s = 0;  ///< of step_s, blocked for communication
};

struct CostParameters {
  double fixed_s = 0;           ///< a step without samples: optimizer, agreement
  double per_sample_s = 0;      ///< of one rank that has the host for itself
  double contention = 1;        ///< at least 1
  double slowness_inside = 1;   ///< of the link inside a host, as a multiple of what Machine says
  double slowness_between = 1;  ///< of that between hosts
  double overlap = 1;           ///< 0 to 1
  double imbalance = 0;         ///< wait for the slowest rank, as a share of compute
};

struct StepCost {
  double compute_s = 0;
  double communication_s = 0;  ///< of all buckets, one after another, hidden or not
  double exposed_s = 0;
  double step_s() const { return compute_s + exposed_s; }
};

/// See Note [Cost model]. Pure; any number of ranks takes the same time.
StepCost predict(const Workload& work,
                 const Machine& machine,
                 const CostParameters& parameters,
                 const RankShare& share);

/// Which links some of `steps` used, so that fit() has something to fit.
struct LinksUsed {
  bool inside = false, between = false;
};
LinksUsed links_used(const Network& network, std::span<const MeasuredStep> steps);

/// The parameters whose predictions have the least sum of squared relative errors at `steps`, of
/// the step without exposed communication and of the exposed communication. Where points say
/// nothing of a parameter (a single one nothing of contention), it stays close to `start`, and the
/// slowness of a link that no point used stays exactly there: one point of one rank gives
/// per_sample_s; 1 and 2 ranks with the same global batch fixed_s, with the same samples a rank
/// contention, both together all. Throws ConfigError: no points, or a time that is not positive.
CostParameters fit(const Workload& work,
                   const Machine& machine,
                   std::span<const MeasuredStep> steps,
                   const CostParameters& start = {});

/// Samples, subtrees and levels of the ranks when the run of `options` has `ranks` of them,
/// `ranks_per_host` on each host. Throws ConfigError as plan_batch().
RankShare share_of(const TrainOptions& options, int ranks, int ranks_per_host);
/// The same for searches: nothing where share_of() throws.
std::optional<RankShare> try_share_of(const TrainOptions& options, int ranks, int ranks_per_host);

}  // namespace lockstep
