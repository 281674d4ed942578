// SPDX-License-Identifier: Apache-2.0
// The exchange of gradients over a played NCCL: the bits are those over MPI.
#include <bit>
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/step/owner_exchange.h"
#include "parallel/batch/schedule.h"
#include "parallel/comm/staged_communicator.h"
#include "tests/nccl/nccl_fixture.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/parallel/exchange_fixture.h"
#include "tests/support/cuda_emulator/streams.h"

namespace lockstep {
namespace {

using emulator::StreamMode;
using namespace testing;

/// Gradients in device memory, and their exchange.
class DeviceExchange {
 public:
  DeviceExchange(Communicator& communicator,
                 Reduction reduction,
                 const FakeGradients& fake_gradients,
                 int max_shards)
      : fake_(fake_gradients),
        rank_(communicator.rank()),
        host_(fake_.elems()),
        gradients_(host_),
        exchange_(
            device(), communicator, reduction, fake_.buckets(), gradients_.data(), max_shards) {}

  /// What the gradients are after a step.
  std::vector<float> step(const Schedule& schedule, int number) {
    exchange_.begin_step(schedule);
    if (schedule.work.empty()) gradients_.set(std::vector<float>(host_.size(), NAN));
    for (std::size_t i = 0; i < schedule.work.size(); ++i) {
      fake_.write(host_, number, schedule.work[i].shard);
      gradients_.set(host_);
      if (i + 1 < schedule.work.size()) exchange_.finish_shard();
    }
    for (int b = 0; b < exchange_.bucket_count(); ++b) exchange_.start_bucket(b);
    for (int b = 0; b < exchange_.bucket_count(); ++b) exchange_.finish_bucket(b);
    return gradients_.get();
  }

 private:
  const FakeGradients& fake_;
  const int rank_;
  std::vector<float> host_;
  OnDevice<float> gradients_;
  GradientExchange exchange_;
};

std::vector<Schedule> schedules_for(int ranks, int rank) {
  std::vector<Schedule> schedules;
  for (const auto& [samples, shards, cluster] :
       {std::array{16, 16, 1}, {13, 13, 1}, {1, 16, 1}, {2 * ranks + 1, 4 * ranks, ranks}})
    schedules.push_back(make_schedule({samples, 1, shards, ranks, cluster}, rank));
  return schedules;
}

/// Below, at and above what is gathered whole; not many, as the emulator takes its time.
std::vector<Bucket> few_buckets() { return {{64, 5}, {128, 16385}, {16640, 1000}, {17664, 40001}}; }
/// Four that are cut into chunks, the last one asked for after a small one.
std::vector<Bucket> large_buckets() {
  return {{0, 16640}, {16640, 20001}, {36672, 17001}, {53696, 100}, {53824, 16400}};
}

void expect_equal_bits(Reduction reduction,
                       Values values,
                       Communicator& host = mpi_world(),
                       const std::vector<Bucket>& buckets = few_buckets()) {
  const auto nccl = make_nccl({.join_s = 30}, host);
  const auto staged = make_staged_communicator(mpi_world(), device());
  const FakeGradients gradients(buckets, values);
  DeviceExchange over_nccl(*nccl, reduction, gradients, 16);
  DeviceExchange over_mpi(*staged, reduction, gradients, 16);
  int step = 0;
  for (const StreamMode mode : {StreamMode::at_once, StreamMode::late, StreamMode::others_first}) {
    for (const Schedule& schedule : schedules_for(nccl->size(), nccl->rank())) {
      emulator::set_stream_mode(mode);
      const std::vector<float> a = over_nccl.step(schedule, step);
      emulator::set_stream_mode(StreamMode::at_once);
      const std::vector<float> b = over_mpi.step(schedule, step);
      EXPECT_EQ(hash_buckets(a, gradients.buckets()), hash_buckets(b, gradients.buckets()))
          << "step " << step << ", streams: " << int(mode);
      ++step;
    }
  }
  nccl->require_healthy();
}

TEST(NcclExchange, ReproducibleSumsHaveTheBitsOfMpi) {
  expect_equal_bits(Reduction::reproducible, Values::random);
}

TEST(NcclExchange, TwoLevelsHaveTheBitsOfMpi) {
  if (mpi_world().size() < 4) GTEST_SKIP() << "needs two hosts of two ranks";
  Traffic traffic;
  ClaimedHosts hosts(mpi_world(), 2, traffic);
  const int joined = fake().joined;
  expect_equal_bits(Reduction::reproducible, Values::random, hosts);
  EXPECT_EQ(fake().joined - joined, 3) << "all ranks, those of a host, those across hosts";
}

// On the host and across hosts at once.
TEST(NcclExchange, ManyBucketsOnTwoLevelsHaveTheBitsOfMpi) {
  if (mpi_world().size() < 4) GTEST_SKIP() << "needs two hosts of two ranks";
  Traffic traffic;
  ClaimedHosts hosts(mpi_world(), 2, traffic);
  expect_equal_bits(Reduction::reproducible, Values::random, hosts, large_buckets());
}

/// Five buckets whose weights come back from their owners, one that every rank has, and a message
/// of bf16 in most of the others.
FlatSpace sharded_space(int per_host) {
  const int ranks = mpi_world().size();
  FlatSpace space;
  space.ranks = ranks;
  space.ranks_per_host = per_host;
  for (const int blocks : {2, 1, 3, 2, 4}) {
    const std::int64_t elems = blocks * 4096 * ranks;
    space.segments.push_back({.parameter = int(space.segments.size()),
                              .offset = space.elems,
                              .elems = elems,
                              .bucket = int(space.buckets.size()),
                              .bf16 = blocks != 2});
    space.buckets.push_back({.offset = space.elems,
                             .elems = elems,
                             .sharded = true,
                             .bf16_elems = blocks != 2 ? elems : 0});
    space.elems += elems;
  }
  space.segments.push_back({.parameter = 5, .offset = space.elems, .elems = 640, .bucket = 5});
  space.buckets.push_back({.offset = space.elems, .elems = 640});
  space.elems += 640;
  return space;
}

/// To nearest even.
float rounded_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

/// On streams in adverse orders. A rank's own chunks stay as they were; of others what is sent in
/// bf16 is rounded.
void expect_weights_from_owners(Communicator& host, int per_host) {
  const auto nccl = make_nccl({.join_s = 30}, host);
  const FlatSpace space = sharded_space(per_host);
  std::vector<float> all(std::size_t(space.elems));
  const Ownership ownership(space, nccl->rank());
  std::vector<float> gradients(all.size());
  OnDevice<float> flat(gradients), weights(all);
  GradientExchange exchange(
      device(), *nccl, Reduction::reproducible, space.buckets, flat.data(), nccl->size());
  const GradientSpace places(space);
  OwnerExchange owners(
      device(), *nccl, exchange.gather_communicators(), space, flat.data(), places);
  int step = 0;
  for (const StreamMode mode : {StreamMode::at_once, StreamMode::late, StreamMode::others_first})
    for (const bool rounds : {false, true}) {
      RandomStream random(random_key(7, "weights"), std::uint64_t(step++));
      for (float& value : all) value = random.uniform() - 0.5f;
      std::vector<float> own(all.size(), NAN), expected = all;
      if (rounds)
        for (const Segment& segment : space.segments)
          for (std::int64_t i = segment.offset; segment.bf16 && i < segment.offset + segment.elems;
               ++i)
            expected[std::size_t(i)] = rounded_to_bf16(all[std::size_t(i)]);
      for (const OwnedStretch& stretch : ownership.stretches())
        for (std::vector<float>* values : {&own, &expected})
          std::copy_n(
              all.begin() + stretch.offset, stretch.elems, values->begin() + stretch.offset);
      weights.set(own);
      emulator::set_stream_mode(mode);
      if (rounds)
        owners.share_weights(weights.data());
      else
        owners.gather_weights(weights.data());
      const std::vector<float> result = weights.get();
      emulator::set_stream_mode(StreamMode::at_once);
      EXPECT_EQ(hash_buckets(result, space.buckets), hash_buckets(expected, space.buckets))
          << "streams: " << int(mode) << ", rounded: " << rounds;
    }
  nccl->require_healthy();
}

TEST(NcclExchange, WeightsComeFromTheirOwners) {
  if (mpi_world().size() == 1) GTEST_SKIP() << "needs another rank";
  expect_weights_from_owners(mpi_world(), mpi_world().size());
}

TEST(NcclExchange, WeightsComeFromTheirOwnersOnTwoLevels) {
  if (mpi_world().size() < 4) GTEST_SKIP() << "needs two hosts of two ranks";
  Traffic traffic;
  ClaimedHosts hosts(mpi_world(), 2, traffic);
  const int joined = fake().joined;
  expect_weights_from_owners(hosts, 2);
  EXPECT_EQ(fake().joined - joined, 3) << "those of the exchange";
}

// Sums of integers are exact in whatever order.
TEST(NcclExchange, FastSumsAreThoseOfMpi) { expect_equal_bits(Reduction::fast, Values::integers); }

}  // namespace
}  // namespace lockstep
