// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/host_traffic.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/check.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/small_bucket_all_gather.h"

namespace lockstep {
namespace {

double total(std::span<const int> counts) {
  return double(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
}

/// Bytes, for each byte of a bucket.
struct HostShare {
  double sent = 0, received = 0;
  HostShare& operator+=(const HostShare& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
  HostShare operator*(double bytes) const { return {sent * bytes, received * bytes}; }
};

class HostShares {
 public:
  HostShares(const ExchangeNodes& nodes, int ranks_per_host, Reduction reduction)
      : nodes_(nodes),
        reduction_(reduction),
        ranks_(double(nodes.of_ranks.size())),
        all_nodes_(total(nodes.of_ranks)),
        host_nodes_(total(nodes.of_hosts)) {
    const std::span<const int> of_ranks(nodes.of_ranks);
    for (std::size_t first = 0; first < of_ranks.size(); first += std::size_t(ranks_per_host)) {
      const auto here =
          of_ranks.subspan(first, std::min(std::size_t(ranks_per_host), of_ranks.size() - first));
      hosts_.push_back({double(here.size()), total(here)});
    }
  }

  std::size_t hosts() const { return hosts_.size(); }
  double all_nodes() const { return all_nodes_; }

  HostShare gathered(std::size_t host) const {
    const auto [ranks, nodes] = hosts_[host];
    return {nodes * (ranks_ - ranks), ranks * (all_nodes_ - nodes)};
  }
  /// `weights`: of a sharded optimizer, for each byte of gradients; otherwise 1.
  HostShare large(std::size_t host, double weights) const {
    const auto [ranks, nodes] = hosts_[host];
    const double hosts = double(hosts_.size()), others = ranks_ - ranks;
    if (hosts == 1) return {};
    if (reduction_ == Reduction::fast) {
      const double ring = 2 * (ranks_ - 1) / ranks_;
      return {ring, ring};
    }
    if (nodes_.of_hosts.empty())
      return {others * (nodes + weights * ranks) / ranks_,
              ranks * (all_nodes_ - nodes + weights * others) / ranks_};
    const double own = nodes_.of_hosts[host];
    return {(hosts - 1) * (own + weights) / hosts,
            (host_nodes_ - own + weights * (hosts - 1)) / hosts};
  }

 private:
  struct Host {
    double ranks = 0, nodes = 0;
  };
  const ExchangeNodes& nodes_;
  Reduction reduction_;
  double ranks_, all_nodes_, host_nodes_;
  std::vector<Host> hosts_;
};

}  // namespace

HostTraffic host_traffic(std::span<const Bucket> buckets,
                         const Schedule& schedule,
                         int ranks_per_host,
                         Reduction reduction) {
  LOCKSTEP_ASSERT(ranks_per_host >= 1 && !schedule.owners(0).empty());
  const PresentLeaves present(schedule.shards_of_rank, schedule.shards);
  HostTraffic traffic;
  std::vector<HostShare> sums;
  for (int turn = 0; turn < schedule.turns; ++turn) {
    const ExchangeNodes nodes =
        exchange_nodes(present, schedule.owners(turn), ranks_per_host, reduction);
    const HostShares shares(nodes, ranks_per_host, reduction);
    traffic.hosts = int(shares.hosts());
    traffic.levels = nodes.of_hosts.empty() ? 1 : 2;
    const bool is_last = turn + 1 == schedule.turns;
    // In turns a bucket goes the same way in each: Note [Sharded gradients].
    const int all_nodes = schedule.turns > 1 ? int(nodes.of_ranks.size()) : int(shares.all_nodes());
    sums.resize(shares.hosts());
    for (std::size_t host = 0; host < shares.hosts(); ++host)
      for (const Bucket& bucket : buckets) {
        if (bucket.elems == 0) continue;
        const double bytes = double(bucket.elems) * sizeof(float);
        const bool small = SmallBucketAllGather::takes(all_nodes, bucket.elems);
        const double weights = is_last ? double(weight_bytes(bucket)) / bytes : 0;
        sums[host] += (small ? shares.gathered(host) : shares.large(host, weights)) * bytes;
      }
  }
  for (const HostShare& sum : sums) {
    traffic.all += sum.sent;
    traffic.busiest = std::max({traffic.busiest, sum.sent, sum.received});
  }
  return traffic;
}

HostTraffic host_traffic(std::span<const Bucket> buckets,
                         int shards,
                         std::span<const ShardRange> owners,
                         int ranks_per_host,
                         Reduction reduction) {
  Schedule schedule;
  schedule.shards = shards;
  schedule.shards_of_rank = std::vector(owners.begin(), owners.end());
  return host_traffic(buckets, schedule, ranks_per_host, reduction);
}

}  // namespace lockstep
