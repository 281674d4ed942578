// SPDX-License-Identifier: Apache-2.0
// The exchange over MPI ranks that claim to be on several hosts.
#include <algorithm>
#include <bit>
#include <gtest/gtest.h>
#include <numeric>

#include "core/step/dry_communicator.h"
#include "core/step/owner_exchange.h"
#include "parallel/batch/schedule.h"
#include "parallel/comm/watched_communicator.h"
#include "parallel/cost/cost_model.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/gradient_exchange.h"
#include "parallel/exchange/host_traffic.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/parallel/exchange_fixture.h"
#include "tests/support/mpi_world.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

using namespace testing;

std::vector<int> claims(int ranks) {
  std::vector<int> all;
  for (int per_host = 2; per_host < ranks; ++per_host)
    if (ranks % per_host == 0) all.push_back(per_host);
  return all;
}

Schedule shards_on_all(int shards) {
  Communicator& world = mpi_world();
  return make_schedule({shards, 1, std::max(shards, world.size()), world.size(), 1}, world.rank());
}

Schedule shards_in_clusters(int micro_batches, int shards, int cluster) {
  Communicator& world = mpi_world();
  return make_schedule({micro_batches, 1, shards, world.size(), cluster}, world.rank());
}

/// Where each of `hosts` has `shards` shards, of which its first rank has as many as the others
/// together and the last one none.
Schedule skewed(int hosts, int shards) {
  const int per_host = mpi_world().size() / hosts;
  std::vector<ShardRange> owners;
  for (int host = 0; host < hosts; ++host)
    for (int place = 0; place < per_host; ++place) {
      const auto cut = [&](int p) { return p == 0 ? 0 : p == 1 ? shards - shards / 3 : shards; };
      owners.push_back({host * shards + cut(place), host * shards + cut(place + 1)});
    }
  return schedule_of(owners, hosts * shards, mpi_world().rank());
}

/// Two hosts of two ranks that hold shards 0 to 7 and 8 to 15 of 16, some of them absent.
Schedule with_absent_shards() {
  return schedule_of({{0, 3}, {4, 8}, {8, 10}, {14, 15}}, 16, mpi_world().rank());
}

/// Steps of all kinds: hosts whose shards are one node of the tree, several and none.
std::vector<Schedule> schedules_for(int per_host) {
  const int ranks = mpi_world().size(), hosts = ranks / per_host;
  std::vector<Schedule> schedules;
  for (const int shards :
       {ranks, 4 * ranks, 16, 3 * ranks, 5, 8 * hosts, 2, 1, 7, 15, 12, 13, 31, 47})
    schedules.push_back(shards_on_all(shards));
  schedules.push_back(skewed(hosts, 8));
  schedules.push_back(shards_in_clusters(2 * ranks, 2 * ranks, per_host));
  schedules.push_back(shards_in_clusters(4 * ranks, 4 * ranks, ranks));
  schedules.push_back(shards_in_clusters(2 * ranks + 1, 4 * ranks, ranks));
  if (ranks == 4) schedules.push_back(with_absent_shards());
  schedules.push_back(shards_on_all(4 * ranks));
  return schedules;
}

void expect_tree_bits(const FakeGradients& fake,
                      const std::vector<float>& gradients,
                      const Schedule& schedule,
                      int step) {
  const auto expected = fake.tree(present_shards(schedule), step, 0, schedule.shards).value();
  for (const Bucket& bucket : fake.buckets())
    EXPECT_EQ(std::memcmp(&gradients[std::size_t(bucket.offset)],
                          &expected[std::size_t(bucket.offset)],
                          std::size_t(bucket.elems) * sizeof(float)),
              0)
        << "step " << step << ", " << bucket.elems << " elements, " << schedule.shards << " shards";
}

/// Steps of schedules_for() through `communicator`.
void expect_bits_of_all_schedules(Communicator& communicator, int per_host, Traffic& traffic) {
  // Large ones with gaps, and with a small one between; the last ranks' chunks of some are short.
  const FakeGradients fake({{64, 20001}, {20100, 300}, {20500, 16385}}, Values::random);
  std::vector<float> gradients(fake.elems());
  NullBackend backend;
  GradientExchange exchange(
      backend, communicator, Reduction::reproducible, fake.buckets(), gradients.data(), 48);
  int step = 0;
  for (const Schedule& schedule : schedules_for(per_host)) {
    const int before = traffic.collectives_in_parts;
    run_step(exchange, gradients, fake, schedule, communicator.rank(), step);
    expect_tree_bits(fake, gradients, schedule, step++);
    EXPECT_GT(traffic.collectives_in_parts, before) << schedule.shards << " shards";
  }
}

TEST(TwoLevelExchange, GivesTheBitsOfTheTree) {
  for (const int per_host : claims(mpi_world().size()))
    for (const bool in_stream_order : {false, true}) {
      Traffic traffic;
      ClaimedHosts claimed(mpi_world(), per_host, traffic, in_stream_order);
      expect_bits_of_all_schedules(claimed, per_host, traffic);
    }
}

TEST(TwoLevelExchange, CollectivesMatchInCheckedMode) {
  for (const int per_host : claims(mpi_world().size())) {
    Traffic traffic;
    Position position;
    const auto checked = make_watched_communicator(
        std::make_unique<ClaimedHosts>(mpi_world(), per_host, traffic), position, true);
    EXPECT_EQ(checked->ranks_per_node(), per_host);
    const FakeGradients fake({{0, 30000}, {30000, 50000}}, Values::random);
    std::vector<float> gradients(fake.elems());
    NullBackend backend;
    GradientExchange exchange(
        backend, *checked, Reduction::reproducible, fake.buckets(), gradients.data(), 16);
    for (const int shards : {mpi_world().size(), 5, 16}) {
      const Schedule schedule = shards_on_all(shards);
      run_step(exchange, gradients, fake, schedule, checked->rank(), shards);
      expect_tree_bits(fake, gradients, schedule, shards);
    }
  }
}

/// A shard for each rank, so that ranks of a host have a node of the tree together, or, `mixed`,
/// ranks of the same place. Where a host's are not a power of two, the rest of the node is absent.
Schedule one_shard_each(int per_host, bool mixed) {
  const int ranks = mpi_world().size(), hosts = ranks / per_host;
  const auto node = int(std::bit_ceil(unsigned(per_host)));
  std::vector<ShardRange> owners;
  for (int r = 0; r < ranks; ++r) {
    const int host = mixed ? r % hosts : r / per_host, place = mixed ? r / hosts : r % per_host;
    owners.push_back({host * node + place, host * node + place + 1});
  }
  return schedule_of(owners, hosts * node, mpi_world().rank());
}

/// The bytes that the cost model has a host send to others for a bucket.
double predicted_network_bytes(std::int64_t elems, int per_host, RankShare share) {
  const Network network{"test", "", {0, 1e300}, {0, 1}, per_host};  // a byte a second
  const Workload work{.buckets = {{double(elems) * sizeof(float), 1}}};
  share.ranks = mpi_world().size();
  return predict(work, {network, 0}, {}, share).communication_s;
}

/// `bytes` of all ranks.
std::uint64_t sum_over_ranks(std::uint64_t bytes) {
  std::vector<std::uint64_t> all(std::size_t(mpi_world().size()));
  mpi_world().all_gather(&bytes, all.data(), sizeof bytes);
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

constexpr std::int64_t kEqualChunks = 64 * 720;  // cut by 4, 6, 9, 10, 12 and 15 ranks

TEST(TwoLevelExchange, SendsOneSumForEachHostOverTheNetwork) {
  const int ranks = mpi_world().size();
  const std::int64_t elems = kEqualChunks;
  const FakeGradients fake({{0, elems}}, Values::integers);
  std::vector<float> gradients(fake.elems());
  NullBackend backend;
  const auto both_ways = [&](int receivers) {
    return std::uint64_t(2 * receivers * elems / ranks) * sizeof(float);
  };
  for (const int per_host : claims(ranks)) {
    Traffic traffic;
    ClaimedHosts claimed(mpi_world(), per_host, traffic);
    GradientExchange exchange(
        backend, claimed, Reduction::reproducible, fake.buckets(), gradients.data(), 2 * ranks);
    run_step(exchange, gradients, fake, one_shard_each(per_host, false), claimed.rank(), 0);
    EXPECT_EQ(exchange.network_bytes_sent(), both_ways(ranks / per_host - 1));
    EXPECT_EQ(exchange.network_bytes_sent(), traffic.network_bytes);
    EXPECT_EQ(exchange.bytes_sent(), both_ways(ranks - 1)) << "as on one level";
    EXPECT_NEAR(predicted_network_bytes(elems, per_host, {.two_levels = true}),
                double(exchange.network_bytes_sent()) * per_host,
                1);
  }
}

// Where hosts have several nodes, those of each cross the network: less than those of its ranks.
TEST(TwoLevelExchange, SendsTheNodesOfEachHostOverTheNetwork) {
  const int ranks = mpi_world().size();
  const std::int64_t chunk = kEqualChunks / ranks;
  const FakeGradients fake({{0, kEqualChunks}}, Values::integers);
  std::vector<float> gradients(fake.elems());
  NullBackend backend;
  for (const int per_host : claims(ranks)) {
    const int hosts = ranks / per_host;
    for (const Schedule& schedule :
         {one_shard_each(per_host, true), shards_on_all(ranks + 1), shards_on_all(64)}) {
      const ExchangeNodes nodes =
          exchange_nodes(PresentLeaves(schedule.shards_of_rank, schedule.shards),
                         schedule.shards_of_rank,
                         per_host,
                         Reduction::reproducible);
      const auto of_ranks = std::accumulate(nodes.of_ranks.begin(), nodes.of_ranks.end(), 0);
      const auto of_hosts = std::accumulate(nodes.of_hosts.begin(), nodes.of_hosts.end(), 0);
      Traffic traffic;
      ClaimedHosts claimed(mpi_world(), per_host, traffic);
      GradientExchange exchange(
          backend, claimed, Reduction::reproducible, fake.buckets(), gradients.data(), 64);
      run_step(exchange, gradients, fake, schedule, claimed.rank(), 1);
      expect_tree_bits(fake, gradients, schedule, 1);
      EXPECT_EQ(exchange.network_bytes_sent(), traffic.network_bytes);
      const int own_host = nodes.of_hosts[std::size_t(claimed.rank() / per_host)];
      EXPECT_EQ(exchange.network_bytes_sent(),
                std::uint64_t((own_host + 1) * (hosts - 1) * chunk) * sizeof(float));
      const std::uint64_t sent = sum_over_ranks(exchange.network_bytes_sent());
      EXPECT_EQ(sent,
                std::uint64_t(per_host * (hosts - 1) * (of_hosts + hosts) * chunk) * sizeof(float));
      EXPECT_LT(sent,
                std::uint64_t((ranks - per_host) * (of_ranks + ranks) * chunk) * sizeof(float))
          << "one level";
      EXPECT_NEAR(
          predicted_network_bytes(
              kEqualChunks, per_host, {.two_levels = true, .host_nodes = double(of_hosts) / hosts}),
          double(sent) / hosts,
          1);
    }
  }
}

/// Two sharded buckets, and a small one between that is not.
FlatSpace sharded_space(int per_host) {
  FlatSpace space;
  space.ranks = mpi_world().size();
  space.ranks_per_host = per_host;
  space.buckets = {{.offset = 0, .elems = kEqualChunks, .sharded = true},
                   {.offset = kEqualChunks, .elems = 320},
                   {.offset = kEqualChunks + 320, .elems = 2 * kEqualChunks, .sharded = true}};
  space.elems = 3 * kEqualChunks + 320;
  return space;
}

/// Nothing but what this rank owns.
void forget_others_chunks(const FlatSpace& space, std::vector<float>& values) {
  const Ownership ownership(space, mpi_world().rank());
  std::vector<float> own(values.size(), NAN);
  for (const OwnedStretch& stretch : ownership.stretches())
    std::copy_n(values.begin() + stretch.offset, stretch.elems, own.begin() + stretch.offset);
  values = own;
}

TEST(TwoLevelExchange, ShardedSumsEndAtTheirOwnersAndComeBackFromThem) {
  for (const int per_host : claims(mpi_world().size()))
    for (const bool in_stream_order : {false, true}) {
      const FlatSpace space = sharded_space(per_host);
      Traffic traffic;
      ClaimedHosts claimed(mpi_world(), per_host, traffic, in_stream_order);
      const FakeGradients fake(space.buckets, Values::random);
      std::vector<float> gradients(fake.elems());
      NullBackend backend;
      GradientExchange exchange(
          backend, claimed, Reduction::reproducible, space.buckets, gradients.data(), 48);
      const GradientSpace places(space);
      OwnerExchange owners(
          backend, claimed, exchange.gather_communicators(), space, gradients.data(), places);
      int step = 0;
      for (const Schedule& schedule : schedules_for(per_host)) {
        run_step(exchange, gradients, fake, schedule, claimed.rank(), step);
        forget_others_chunks(space, gradients);
        owners.share_weights(gradients.data());
        EXPECT_FALSE(owners.in_flight());
        expect_tree_bits(fake, gradients, schedule, step++);
      }
    }
}

// Sums go to the owner's host once for each node of another host, weights once.
TEST(TwoLevelExchange, AShardedBucketSendsWhatAnotherDoes) {
  const int ranks = mpi_world().size();
  for (const int per_host : claims(ranks)) {
    const FlatSpace space = sharded_space(per_host);
    const FakeGradients fake(space.buckets, Values::integers);
    std::vector<float> gradients(fake.elems());
    NullBackend backend;
    for (const Schedule& schedule : {one_shard_each(per_host, false), shards_on_all(64)}) {
      Traffic traffic;
      ClaimedHosts claimed(mpi_world(), per_host, traffic);
      GradientExchange exchange(
          backend, claimed, Reduction::reproducible, space.buckets, gradients.data(), 64);
      const GradientSpace places(space);
      OwnerExchange owners(
          backend, claimed, exchange.gather_communicators(), space, gradients.data(), places);
      run_step(exchange, gradients, fake, schedule, claimed.rank(), 0);
      owners.share_weights(gradients.data());
      const SentBytes sent = exchange.sent() + owners.sent();
      const std::uint64_t all = sum_over_ranks(sent.network);
      const HostTraffic planned = host_traffic(space.buckets,
                                               schedule.shards,
                                               schedule.shards_of_rank,
                                               per_host,
                                               Reduction::reproducible);
      EXPECT_EQ(planned.levels, 2);
      EXPECT_NEAR(planned.all, double(all), 1e-12 * double(all));
      std::vector<Bucket> whole = space.buckets;
      for (Bucket& bucket : whole) bucket.sharded = false;
      GradientExchange other(
          backend, claimed, Reduction::reproducible, whole, gradients.data(), 64);
      run_step(other, gradients, fake, schedule, claimed.rank(), 0);
      EXPECT_EQ(other.bytes_sent(), sent.all);
      EXPECT_EQ(other.network_bytes_sent(), sent.network);
    }
  }
}

TEST(TwoLevelExchange, NeedsTheMemoryThatIsPlannedWithoutHosts) {
  const int ranks = mpi_world().size(), most = 4 * ranks + 3;
  const FakeGradients fake({{0, 64}, {64, 20000}, {20064, 17000}}, Values::integers);
  std::vector<float> gradients(fake.elems());
  DryCommunicator nobody(mpi_world().rank(), ranks);
  NullBackend planned;
  const GradientExchange plan(
      planned, nobody, Reduction::reproducible, fake.buckets(), gradients.data(), most);
  for (const int per_host : claims(ranks)) {
    Traffic traffic;
    ClaimedHosts claimed(mpi_world(), per_host, traffic);
    NullBackend backend;
    GradientExchange exchange(
        backend, claimed, Reduction::reproducible, fake.buckets(), gradients.data(), most);
    EXPECT_EQ(exchange.communication_bytes(), plan.communication_bytes());
    EXPECT_EQ(exchange.partial_sum_bytes(), plan.partial_sum_bytes());
    const int allocations = backend.allocations();
    for (int shards = 1; shards <= most; ++shards)
      run_step(exchange, gradients, fake, shards_on_all(shards), claimed.rank(), shards);
    EXPECT_EQ(backend.allocations(), allocations);
    EXPECT_GT(traffic.collectives_in_parts, 0);
  }
}

// Many more than there are slots, and ranks that are late at different ones.
TEST(TwoLevelExchange, BucketsInFlightTogetherKeepApart) {
  std::vector<Bucket> buckets;
  for (int b = 0; b < 20; ++b) buckets.push_back({b * 20000, 17000 + b});
  const FakeGradients fake(buckets, Values::random);
  std::vector<float> gradients(fake.elems());
  NullBackend backend;
  const int per_host = claims(mpi_world().size()).front(), shards = 2 * mpi_world().size();
  Traffic traffic;
  ClaimedHosts claimed(mpi_world(), per_host, traffic);
  GradientExchange exchange(
      backend, claimed, Reduction::reproducible, fake.buckets(), gradients.data(), shards);
  for (int step = 0; step < 10; ++step) {
    const Schedule schedule = shards_on_all(step % 3 == 2 ? 5 : shards);
    run_step(exchange, gradients, fake, schedule, claimed.rank(), step);
    expect_tree_bits(fake, gradients, schedule, step);
  }
  EXPECT_GT(traffic.collectives_in_parts, 0);
}

TEST(TwoLevelExchange, FastStaysTheLibrarysSum) {
  const FakeGradients fake({{0, 40000}}, Values::integers);
  std::vector<float> gradients(fake.elems());
  NullBackend backend;
  Traffic traffic;
  ClaimedHosts claimed(mpi_world(), claims(mpi_world().size()).front(), traffic);
  GradientExchange exchange(
      backend, claimed, Reduction::fast, fake.buckets(), gradients.data(), claimed.size());
  const Schedule schedule = shards_on_all(claimed.size());
  run_step(exchange, gradients, fake, schedule, claimed.rank(), 0);
  expect_tree_bits(fake, gradients, schedule, 0);
  EXPECT_EQ(traffic.collectives_in_parts, 0);
}

}  // namespace
}  // namespace lockstep
