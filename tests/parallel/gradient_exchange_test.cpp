// SPDX-License-Identifier: Apache-2.0
// The exchange over MPI, on as many ranks as the test is run with.
#include "parallel/exchange/gradient_exchange.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>

#include "lockstep/error.h"
#include "parallel/batch/schedule.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/exchange_fixture.h"
#include "tests/support/mpi_world.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

using namespace testing;

// Random cuts of `shards` shards: uneven, some ranks empty. Equal on all ranks.
std::vector<ShardRange> random_owners(RandomStream& random, int shards, int ranks) {
  std::vector<int> cuts{0, shards};
  for (int i = 1; i < ranks; ++i) cuts.push_back(int(random.below(std::uint32_t(shards) + 1)));
  std::ranges::sort(cuts);
  std::vector<ShardRange> owners;
  for (std::size_t r = 0; r < std::size_t(ranks); ++r) owners.push_back({cuts[r], cuts[r + 1]});
  return owners;
}

// Whole and short batches, clusters, shards that are not a power of two, and uneven ownership.
// Exact integers tell a lost or doubled shard from rounding; three schedules of them do.
std::vector<Schedule> schedules_for(int ranks, int rank, Values values) {
  std::vector<Schedule> schedules;
  const auto add = [&](std::int64_t samples, int shards, int cluster) {
    schedules.push_back(make_schedule({samples, 1, shards, ranks, cluster}, rank));
  };
  add(16, 16, 1);
  add(23, 13, 1);
  add(16, 16, 1);
  if (values == Values::integers) return schedules;
  add(2, 16, 1);
  add(1, 16, 1);
  add(2 * ranks + 1, 4 * ranks, ranks);
  if (ranks % 2 == 0) add(9, 12, 2);
  RandomStream random(random_key(4, "owners"), 0);
  for (int shards : {5, 8, 12})
    schedules.push_back(schedule_of(random_owners(random, shards, ranks), shards, rank));
  return schedules;
}

void expect_tree_bits(const FakeGradients& fake,
                      const std::vector<float>& gradients,
                      const Schedule& schedule,
                      int step) {
  const auto expected = fake.tree(present_shards(schedule), step, 0, schedule.shards).value();
  for (std::size_t b = 0; b < fake.buckets().size(); ++b) {
    const Bucket bucket = fake.buckets()[b];
    EXPECT_EQ(std::memcmp(&gradients[std::size_t(bucket.offset)],
                          &expected[std::size_t(bucket.offset)],
                          std::size_t(bucket.elems) * sizeof(float)),
              0)
        << "step " << step << ", bucket " << b << " of " << bucket.elems << " elements, "
        << schedule.shards << " shards";
  }
}

TEST(GradientExchange, GivesTheBitsOfTheTree) {
  Communicator& world = mpi_world();
  for (Values values : {Values::random, Values::integers}) {
    const FakeGradients fake(buckets_of_all_sizes(), values);
    std::vector<float> gradients(fake.elems());
    NullBackend backend;
    GradientExchange exchange(
        backend, world, Reduction::reproducible, fake.buckets(), gradients.data(), 16);
    int step = 0;
    for (const Schedule& schedule : schedules_for(world.size(), world.rank(), values)) {
      run_step(exchange, gradients, fake, schedule, world.rank(), step);
      expect_tree_bits(fake, gradients, schedule, step++);
    }
  }
}

TEST(GradientExchange, EveryNumberOfRanksGivesTheBitsOfOne) {
  Communicator& world = mpi_world();
  SelfCommunicator self;
  NullBackend backend;
  const FakeGradients fake(buckets_of_all_sizes(), Values::random);
  std::vector<float> together(fake.elems()), alone(fake.elems());
  GradientExchange with_others(
      backend, world, Reduction::reproducible, fake.buckets(), together.data(), 8);
  GradientExchange without(backend, self, Reduction::reproducible, fake.buckets(), alone.data(), 8);
  int step = 0;
  for (std::int64_t samples : {40, 8, 31, 3}) {
    const ScheduleSettings settings{samples, 4, 8, world.size(), 1};
    run_step(
        with_others, together, fake, make_schedule(settings, world.rank()), world.rank(), step);
    run_step(without, alone, fake, make_schedule({samples, 4, 8, 1, 1}, 0), 0, step);
    EXPECT_EQ(hash_buckets(together, fake.buckets()), hash_buckets(alone, fake.buckets())) << step;
    ++step;
  }
}

// Turns with one shard a rank, the last one with fewer, and slots of clusters that are apart in the
// tree. Sums of buckets that are chunked end at the owner where the bucket is sharded, else at all.
TEST(GradientExchange, DealtShardsGiveTheBitsOfTheTree) {
  Communicator& world = mpi_world();
  const int ranks = world.size(), rank = world.rank();
  if (ranks == 1) GTEST_SKIP() << "one rank has no turns";
  NullBackend backend;
  const FakeGradients fake(buckets_of_all_sizes(), Values::random);
  std::vector<float> gradients(fake.elems());
  for (int cluster = 1; cluster <= ranks; ++cluster) {
    if (ranks % cluster != 0) continue;
    const int shards = 13 / cluster * cluster;
    GradientExchange exchange(
        backend, world, Reduction::reproducible, fake.buckets(), gradients.data(), shards, cluster);
    const std::size_t bytes = exchange.partial_sum_bytes() + exchange.communication_bytes();
    int step = 0;
    for (const std::int64_t samples : {13, 40, 2, 1, 9}) {
      const Schedule schedule = make_schedule({samples, 1, shards, ranks, cluster, true}, rank);
      run_step(exchange, gradients, fake, schedule, rank, step);
      expect_tree_bits(fake, gradients, schedule, step++);
    }
    EXPECT_EQ(exchange.partial_sum_bytes() + exchange.communication_bytes(), bytes);
  }
}

TEST(GradientExchange, FastIsTheSumToRounding) {
  Communicator& world = mpi_world();
  for (Values values : {Values::random, Values::integers}) {
    const FakeGradients fake(buckets_of_all_sizes(), values);
    std::vector<float> gradients(fake.elems()), leaf(fake.elems());
    NullBackend backend;
    GradientExchange exchange(
        backend, world, Reduction::fast, fake.buckets(), gradients.data(), 16);
    int step = 0;
    for (const Schedule& schedule : schedules_for(world.size(), world.rank(), values)) {
      run_step(exchange, gradients, fake, schedule, world.rank(), step);
      std::vector<double> sum(fake.elems()), magnitude(fake.elems());
      const std::vector<bool> present = present_shards(schedule);
      for (int shard = 0; shard < schedule.shards; ++shard) {
        if (!present[std::size_t(shard)]) continue;
        fake.write(leaf, step, shard);
        for (std::size_t i = 0; i < leaf.size(); ++i) {
          sum[i] += leaf[i];
          magnitude[i] += std::abs(leaf[i]);
        }
      }
      // Each of the (shards - 1) additions, in any order, rounds by at most half an eps of the sum
      // of magnitudes (Higham 2002, eq. 4.4). Small integers have no rounding.
      const double rounding = values == Values::integers
                                  ? 0.0
                                  : 0.5 * schedule.shards * std::numeric_limits<float>::epsilon();
      int wrong = 0;
      for (const Bucket& bucket : fake.buckets())
        for (auto i = std::size_t(bucket.offset); i < std::size_t(bucket.offset + bucket.elems);
             ++i)
          wrong += !(std::abs(gradients[i] - sum[i]) <= rounding * magnitude[i]);
      EXPECT_EQ(wrong, 0) << "step " << step << ", " << schedule.shards << " shards";
      ++step;
    }
  }
}

// Of every number of shards up to `max_shards`, or every `stride`-th.
void expect_no_later_allocation(Reduction reduction, int max_shards, int stride) {
  Communicator& world = mpi_world();
  NullBackend backend;
  const FakeGradients fake({{0, 64}, {64, 20000}, {20064, 17000}}, Values::integers);
  std::vector<float> gradients(fake.elems());
  GradientExchange exchange(
      backend, world, reduction, fake.buckets(), gradients.data(), max_shards);
  const int allocations = backend.allocations();
  for (int samples = 1; samples <= max_shards; samples += stride)
    run_step(exchange,
             gradients,
             fake,
             make_schedule({samples, 1, max_shards, world.size(), 1}, world.rank()),
             world.rank(),
             samples);
  EXPECT_EQ(backend.allocations(), allocations) << max_shards;
  EXPECT_GE(backend.bytes_alive(), exchange.partial_sum_bytes() + exchange.communication_bytes());
}

TEST(GradientExchange, ReservesEverythingBeforeTheFirstStep) {
  for (Reduction reduction : {Reduction::reproducible, Reduction::fast}) {
    expect_no_later_allocation(reduction, 4 * mpi_world().size() + 3, 1);
    expect_no_later_allocation(reduction, 301, 12);
  }
}

TEST(GradientExchange, AlignedShardsCostTheBytesOfARingAllReduce) {
  Communicator& world = mpi_world();
  const std::int64_t elems = 64 * 12 * 1024;  // Cut into equal chunks by 1 to 4 ranks.
  NullBackend backend;
  std::vector<float> gradients(std::size_t(elems), 1.0f);
  const FakeGradients fake({{0, elems}}, Values::integers);
  GradientExchange exchange(
      backend, world, Reduction::reproducible, fake.buckets(), gradients.data(), world.size());
  run_step(exchange,
           gradients,
           fake,
           make_schedule({world.size(), 1, world.size(), world.size(), 1}, world.rank()),
           world.rank(),
           0);
  EXPECT_EQ(exchange.bytes_sent(),
            std::uint64_t(2 * (world.size() - 1) * elems / world.size()) * sizeof(float));
  EXPECT_EQ(exchange.partial_sum_bytes(), 0u);
}

TEST(GradientExchange, OneShardAloneTouchesNothing) {
  SelfCommunicator self;
  NullBackend backend;
  std::vector<float> gradients(100, 3.0f);
  GradientExchange exchange(
      backend, self, Reduction::reproducible, {{0, 100}}, gradients.data(), 1);
  exchange.begin_step(make_schedule({.samples = 7, .micro_batch = 4}, 0));
  exchange.start_bucket(0);
  exchange.finish_bucket(0);
  EXPECT_EQ(gradients, std::vector<float>(100, 3.0f));
  EXPECT_EQ(backend.bytes_alive(), 0u);
  EXPECT_EQ(exchange.bytes_sent(), 0u);
}

TEST(GradientExchange, MemoryThatIsNotThereIsNamed) {
  SelfCommunicator self;
  NullBackend backend;
  backend.set_memory_limit(1000);
  std::vector<float> gradients(1000);
  try {
    GradientExchange(backend, self, Reduction::reproducible, {{0, 1000}}, gradients.data(), 4);
    FAIL() << "pending sums of 4 shards fit nowhere";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("pending gradient sums"), std::string::npos);
  }
  EXPECT_EQ(backend.bytes_alive(), 0u);
}

TEST(GradientExchange, MisuseIsAnError) {
  SelfCommunicator self;
  NullBackend backend;
  std::vector<float> gradients(10);
  GradientExchange exchange(
      backend, self, Reduction::reproducible, {{0, 4}, {4, 6}}, gradients.data(), 2);
  const Schedule two = make_schedule({.samples = 2, .shards = 2}, 0);
  EXPECT_THROW(exchange.finish_bucket(0), InternalError);
  exchange.begin_step(two);
  EXPECT_THROW(exchange.start_bucket(0), InternalError) << "a shard is missing";
  exchange.finish_shard();
  EXPECT_THROW(exchange.finish_shard(), InternalError) << "the last shard goes by buckets";
  exchange.start_bucket(0);
  EXPECT_THROW(exchange.start_bucket(0), InternalError);
  EXPECT_THROW(exchange.begin_step(two), InternalError) << "the step is not over";
}

}  // namespace
}  // namespace lockstep
