// SPDX-License-Identifier: Apache-2.0
#include "parallel/cost/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/base/check.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/small_bucket_all_gather.h"
#include "parallel/replica/replica_parts.h"

namespace lockstep {
namespace {

double rounds(int parts) { return double(std::bit_width(unsigned(parts) - 1)); }

Link slowed_by(double slowness, const Link& link) {
  return {link.latency_s * slowness, link.bytes_per_s / slowness};
}

/// Seconds of the stages of a bucket on two levels: all-to-all on the host and across hosts,
/// all-gather across hosts and on the host.
struct LevelSeconds {
  double host_sum = 0, sum = 0, gather = 0, host_gather = 0;
  double sums() const { return host_sum + sum; }
  double gathers() const { return gather + host_gather; }
};

/// When buckets are done that go as in Note [Two streams] of bucket_pipeline.h, with one slot.
class TwoStreams {
 public:
  /// Ends with the sums: OwnerGathers have the rest.
  void start_sums(double ready, LevelSeconds bucket) {
    bucket.gather = bucket.host_gather = 0;
    start(ready, bucket);
  }
  void start(double ready, const LevelSeconds& bucket) {
    host_ = std::max({host_, ready, summed_}) + bucket.host_sum;
    network_ = std::max(network_, host_) + bucket.sum;
    summed_ = network_;
    gather_on_host();
    network_ += bucket.gather;
    gathered_ = network_;
    host_gather_ = bucket.host_gather;
  }
  double end() {
    gather_on_host();
    return host_;
  }

 private:
  /// Of the bucket before, if there is one.
  void gather_on_host() {
    if (host_gather_ > 0) host_ = std::max(host_, gathered_) + host_gather_;
    host_gather_ = 0;
  }
  double host_ = 0, network_ = 0;  // when each stream is free
  double summed_ = 0, gathered_ = 0, host_gather_ = 0;
};

/// How long gathers of weights on two levels take together, on two streams: OwnerExchange.
class OwnerGathers {
 public:
  void add(const LevelSeconds& bucket) {
    network_ += bucket.gather;
    host_ = std::max(host_, network_) + bucket.host_gather;
  }
  double seconds() const { return host_; }

 private:
  double network_ = 0, host_ = 0;  // when each stream is free
};

/// Ranks as a network sees them.
class Exchange {
 public:
  Exchange(const Workload& work,
           const Network& network,
           const CostParameters& parameters,
           const RankShare& share)
      : reduction_(work.reduction),
        inside_(slowed_by(parameters.slowness_inside, network.inside)),
        between_(slowed_by(parameters.slowness_between, network.between)),
        q_(share.subtrees),
        n_(share.ranks),
        k_(share.host_nodes),
        two_levels_(share.two_levels) {
    ranks_in_host_ = std::min(share.ranks, network.ranks_per_host);
    hosts_ = (share.ranks - 1) / ranks_in_host_ + 1;
  }

  bool gathers_whole(double bytes) const {
    return bytes <= double(SmallBucketAllGather::kSmallBucketBytes) &&
           bytes * q_ * n_ <= double(SmallBucketAllGather::kMaxBytes);
  }

  double seconds(const BucketWork& bucket) const {
    const double bytes = bucket.bytes;
    if (n_ == 1) return 0;
    const double inside = ranks_in_host_ - 1, outside = n_ - ranks_in_host_;
    // Of one byte that every rank sends to every other.
    const double to_each =
        inside / inside_.bytes_per_s + ranks_in_host_ * outside / between_.bytes_per_s;
    const double rounds_s =
        rounds(ranks_in_host_) * inside_.latency_s + rounds(hosts_) * between_.latency_s;
    if (gathers_whole(bytes)) return rounds_s + q_ * bytes * to_each;
    if (reduction_ == Reduction::fast) {
      const double slowest =
          std::max(1 / inside_.bytes_per_s, hosts_ > 1 ? 1 / between_.bytes_per_s : 0);
      return 2 * rounds_s + 2 * bytes * (n_ - 1) / n_ * slowest;
    }
    if (two_levels_) {
      const LevelSeconds levels = on_two_levels(bucket);
      return levels.sums() + levels.gathers();
    }
    return exchanges_of(bucket) * (inside * inside_.latency_s + outside * between_.latency_s) +
           (bucket.gathered_bytes + q_ * bytes) / n_ * to_each;
  }
  /// Of seconds(), the part of a large bucket's all-gather.
  double gathering_share(const BucketWork& bucket) const {
    if (two_levels_) return on_two_levels(bucket).gathers() / seconds(bucket);
    return bucket.gathered_bytes / (bucket.gathered_bytes + q_ * bucket.bytes);
  }

  bool has_two_levels() const { return two_levels_; }
  LevelSeconds on_two_levels(const BucketWork& bucket) const {
    const double others = ranks_in_host_ - 1, other_hosts = hosts_ - 1;
    const double gathers = exchanges_of(bucket) - 1;
    // Of one byte.
    const double on_host = others / ranks_in_host_ / inside_.bytes_per_s;
    const double across = other_hosts / hosts_ / between_.bytes_per_s;
    return {.host_sum = others * inside_.latency_s + q_ * bucket.bytes * on_host,
            .sum = other_hosts * between_.latency_s + k_ * bucket.bytes * across,
            .gather = gathers * other_hosts * between_.latency_s + bucket.gathered_bytes * across,
            .host_gather = gathers * others * inside_.latency_s + bucket.gathered_bytes * on_host};
  }

 private:
  /// The all-to-all, and the all-gather where there is one.
  static double exchanges_of(const BucketWork& bucket) { return bucket.gathered_bytes > 0 ? 2 : 1; }

  Reduction reduction_;
  Link inside_, between_;
  double q_, n_, k_;
  bool two_levels_;
  int ranks_in_host_ = 1, hosts_ = 1;
};

RankShare share_in(const TrainOptions& options, const BatchPlan& batch, int ranks_per_host) {
  const Schedule schedule = training_schedule(batch, batch.global_batch, 0);
  const std::int64_t most = std::min(batch.global_batch, schedule.most_rounds * batch.micro_batch);
  const ExchangeNodes nodes =
      exchange_nodes(PresentLeaves(schedule.shards_of_rank, schedule.shards),
                     schedule.owners(0),
                     ranks_per_host,
                     options.reduction);
  const auto mean = [](const std::vector<int>& counts) {
    return std::accumulate(counts.begin(), counts.end(), 0.0) / double(counts.size());
  };
  RankShare share{.ranks = batch.ranks, .samples = double(most), .subtrees = mean(nodes.of_ranks)};
  share.two_levels = !nodes.of_hosts.empty();
  if (share.two_levels) share.host_nodes = mean(nodes.of_hosts);
  share.sharded = options.sharding != Sharding::none;
  share.turns = schedule.turns;
  return share;
}

/// Of one exchange.
struct TurnSeconds {
  double communication = 0, after_backward = 0;
};

struct TurnRules {
  double backward_s = 0, crowd = 1;
  bool on_gpus = false, sharded = false;
  bool is_last = true;  ///< of the step: weights are gathered
};

TurnSeconds turn_seconds(const Workload& work, const Exchange& exchange, const TurnRules& rules) {
  const bool two_streams = rules.on_gpus && exchange.has_two_levels();
  TurnSeconds turn;
  TwoStreams streams;
  OwnerGathers gathers;
  double hidden_end = 0, after = 0;  // from the start of the last backward; after its end
  for (BucketWork bucket : work.buckets) {
    if (!rules.is_last) bucket.gathered_bytes = 0;
    const double seconds = exchange.seconds(bucket) * rules.crowd;
    turn.communication += seconds;
    if (work.overlap == Overlap::off || exchange.gathers_whole(bucket.bytes))
      after += seconds;
    else if (two_streams && rules.sharded) {
      const LevelSeconds levels = exchange.on_two_levels(bucket);
      streams.start_sums(bucket.ready * rules.backward_s, levels);
      if (rules.is_last) gathers.add(levels);
    } else if (two_streams)
      streams.start(bucket.ready * rules.backward_s, exchange.on_two_levels(bucket));
    else {
      const double gather = rules.sharded ? seconds * exchange.gathering_share(bucket) : 0;
      hidden_end = std::max(hidden_end, bucket.ready * rules.backward_s) + seconds - gather;
      after += gather;
    }
  }
  hidden_end = std::max(hidden_end, streams.end());
  after += gathers.seconds();
  turn.after_backward = after + std::max(0.0, hidden_end - rules.backward_s);
  return turn;
}

}  // namespace

StepCost predict(const Workload& work,
                 const Machine& machine,
                 const CostParameters& parameters,
                 const RankShare& share) {
  LOCKSTEP_ASSERT(share.ranks >= 1 && machine.network.ranks_per_host >= 1);
  const double in_host = std::min(share.ranks, machine.network.ranks_per_host);
  const int cores = machine.on_gpus ? 0 : machine.cores;
  const double crowd = cores > 0 ? std::max(1.0, in_host / cores) : 1;
  const double filled = cores > 1 ? std::min(1.0, (in_host - 1) / (cores - 1)) : 0;
  const double slowed = crowd * (1 + (parameters.contention - 1) * filled);

  StepCost cost;
  cost.compute_s = slowed * (parameters.fixed_s + parameters.per_sample_s * share.samples);
  const double backward_s = slowed * parameters.per_sample_s *
                            std::min(work.micro_batch, share.samples) * work.backward_share;
  const Exchange exchange(work, machine.network, parameters, share);
  const auto add_turn = [&](bool is_last, double times) {
    const TurnSeconds turn =
        turn_seconds(work, exchange, {backward_s, crowd, machine.on_gpus, share.sharded, is_last});
    const double at_best = std::min(turn.communication, turn.after_backward);
    cost.communication_s += times * turn.communication;
    cost.exposed_s += times * (at_best + (1 - parameters.overlap) * (turn.communication - at_best));
  };
  if (share.turns > 1) add_turn(false, share.turns - 1);
  add_turn(true, 1);
  if (share.ranks > 1) cost.exposed_s += parameters.imbalance * cost.compute_s / crowd;
  return cost;
}

LinksUsed links_used(const Network& network, std::span<const MeasuredStep> steps) {
  LinksUsed used;
  for (const MeasuredStep& step : steps) {
    used.inside |= step.share.ranks > 1 && network.ranks_per_host > 1;
    used.between |= step.share.ranks > network.ranks_per_host;
  }
  return used;
}

RankShare share_of(const TrainOptions& options, int ranks, int ranks_per_host) {
  return share_in(options, plan_batch(options, ranks), ranks_per_host);
}

std::optional<RankShare> try_share_of(const TrainOptions& options, int ranks, int ranks_per_host) {
  const auto batch = try_plan_batch(options, ranks);
  if (!batch || batch->micro_batches > kMaxMicroBatches) return std::nullopt;
  return share_in(options, *batch, ranks_per_host);
}

}  // namespace lockstep
