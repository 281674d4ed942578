// SPDX-License-Identifier: Apache-2.0
// The exchange of gradients over a played NCCL: the bits are those over MPI.
#include <gtest/gtest.h>

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

// Sums of integers are exact in whatever order.
TEST(NcclExchange, FastSumsAreThoseOfMpi) { expect_equal_bits(Reduction::fast, Values::integers); }

}  // namespace
}  // namespace lockstep
