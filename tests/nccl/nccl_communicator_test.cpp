// SPDX-License-Identifier: Apache-2.0
// The communicator over a played NCCL, on as many ranks as the test is run with.
#include <cstdlib>
#include <gmock/gmock.h>
#include <numeric>

#include "lockstep/error.h"
#include "tests/nccl/nccl_fixture.h"
#include "tests/support/cuda_emulator/streams.h"

namespace lockstep {
namespace {

using emulator::StreamMode;
using testing::device;
using ::testing::Each;
using testing::fake;
using testing::make_nccl;
using testing::OnDevice;

// Small integers: sums are exact in any order.
float value(int from, int to, std::int64_t i) { return float(100 * from + 10 * to + i % 7); }

void check_broadcast(Communicator& comm) {
  for (int root = 0; root < comm.size(); ++root) {
    OnDevice<int> data(std::vector<int>(1000, comm.rank()));
    comm.broadcast(data.data(), data.bytes() - sizeof(int), root);
    std::vector<int> expected(1000, root);
    expected.back() = comm.rank();
    EXPECT_EQ(data.get(), expected);
  }
}

void check_gathers(Communicator& comm) {
  const int rank = comm.rank();
  std::vector<int> expected(std::size_t(comm.size()));
  std::iota(expected.begin(), expected.end(), 0);
  OnDevice<int> own({rank}), ranks(std::vector<int>(expected.size(), -1));
  comm.all_gather(own.data(), ranks.data(), sizeof rank);
  EXPECT_EQ(ranks.get(), expected);

  // Rank r contributes r copies of r: rank 0 nothing.
  std::vector<std::size_t> bytes;
  std::vector<int> all;
  for (int r = 0; r < comm.size(); ++r) {
    bytes.push_back(std::size_t(r) * sizeof(int));
    all.insert(all.end(), std::size_t(r), r);
  }
  all.push_back(-1);  // must not be touched
  OnDevice<int> sent(std::vector<int>(std::size_t(rank) + 1, rank));
  OnDevice<int> received(std::vector<int>(all.size(), -1));
  comm.all_gather_v(rank == 0 ? nullptr : sent.data(), received.data(), bytes);
  EXPECT_EQ(received.get(), all);
}

/// Rank a sends elems(a, b) elements to rank b, with gaps around the blocks.
template <typename Elems>
void check_all_to_all(Communicator& comm, Elems elems) {
  const int rank = comm.rank();
  std::vector<CommBlock> to, from;
  std::vector<float> send(1, -2.0f), recv(1, -1.0f), expected(1, -1.0f);
  for (int r = 0; r < comm.size(); ++r) {
    to.push_back({std::int64_t(send.size()), elems(rank, r)});
    for (std::int64_t i = 0; i < elems(rank, r); ++i) send.push_back(value(rank, r, i));
    send.push_back(-2.0f);
    from.push_back({std::int64_t(expected.size()), elems(r, rank)});
    for (std::int64_t i = 0; i < elems(r, rank); ++i) expected.push_back(value(r, rank, i));
    expected.push_back(-1.0f);
  }
  recv.resize(expected.size(), -1.0f);
  OnDevice<float> sent(send), received(recv);
  comm.start_all_to_all(sent.data(), to, received.data(), from)->wait();
  EXPECT_EQ(received.get(), expected);
}

/// Rank r owns elems(r) elements.
template <typename Elems>
void check_all_gather(Communicator& comm, Elems elems, std::int64_t gap) {
  std::vector<CommBlock> blocks;
  std::vector<float> data, expected;
  for (int r = 0; r < comm.size(); ++r) {
    blocks.push_back({std::int64_t(data.size()), elems(r)});
    for (std::int64_t i = 0; i < elems(r); ++i) {
      data.push_back(r == comm.rank() ? value(r, 0, i) : -1.0f);
      expected.push_back(value(r, 0, i));
    }
    data.insert(data.end(), std::size_t(gap), -3.0f);
    expected.resize(data.size(), -3.0f);
  }
  data.push_back(-3.0f);
  expected.push_back(-3.0f);
  OnDevice<float> gathered(data);
  const auto request = comm.start_all_gather(gathered.data(), blocks);
  EXPECT_TRUE(request->test()) << "in the order of the stream it is complete";
  request->wait();
  EXPECT_EQ(gathered.get(), expected);
}

void check_all_reduce(Communicator& comm, std::int64_t elems) {
  std::vector<float> data, expected;
  for (std::int64_t i = 0; i < elems; ++i) {
    data.push_back(value(comm.rank(), 1, i));
    expected.push_back(0);
    for (int r = 0; r < comm.size(); ++r) expected.back() += value(r, 1, i);
  }
  OnDevice<float> sums(data);
  comm.start_all_reduce(sums.data(), elems)->wait();
  EXPECT_EQ(sums.get(), expected);
}

void check_everything(Communicator& comm) {
  check_broadcast(comm);
  check_gathers(comm);
  check_all_to_all(comm, [](int from, int to) { return std::int64_t(3 + from + to); });
  check_all_to_all(comm, [](int from, int to) { return std::int64_t((from + 2 * to) % 3); });
  check_all_to_all(comm, [](int from, int to) { return std::int64_t(from == 0 && to > 0); });
  check_all_to_all(comm, [](int, int) { return std::int64_t{0}; });
  check_all_gather(
      comm, [](int) { return std::int64_t{500}; }, 0);
  check_all_gather(
      comm, [](int) { return std::int64_t{500}; }, 1);
  check_all_gather(
      comm, [](int r) { return std::int64_t(5 * r); }, 0);
  check_all_gather(
      comm, [](int) { return std::int64_t{0}; }, 0);
  check_all_reduce(comm, 0);
  check_all_reduce(comm, 1);
  check_all_reduce(comm, 100000);
  comm.barrier();
  comm.require_healthy();
}

/// In every order in which the emulator runs streams.
class NcclCommunicator : public ::testing::TestWithParam<StreamMode> {
 protected:
  void SetUp() override { emulator::set_stream_mode(GetParam()); }
  void TearDown() override { emulator::set_stream_mode(StreamMode::at_once); }
};
INSTANTIATE_TEST_SUITE_P(Orders,
                         NcclCommunicator,
                         ::testing::Values(StreamMode::at_once,
                                           StreamMode::late,
                                           StreamMode::others_first));

TEST_P(NcclCommunicator, DoesEverythingInDeviceMemory) {
  const auto comm = make_nccl();
  EXPECT_TRUE(comm->in_stream_order());
  comm->reserve_requests(2);
  check_everything(*comm);
}

TEST_P(NcclCommunicator, PartsDoEverything) {
  const auto comm = make_nccl();
  // Odd and even ranks, in reverse order.
  const auto part = comm->split(comm->rank() % 2, -comm->rank());
  const int members = (comm->size() + 1 - comm->rank() % 2) / 2;
  ASSERT_EQ(part->size(), members);
  EXPECT_EQ(part->rank(), members - 1 - comm->rank() / 2);
  check_everything(*part);
  check_everything(*part->split(0, 0));
  check_everything(*comm);
}

TEST_P(NcclCommunicator, StandsInTheStreamInUse) {
  const auto comm = make_nccl();
  const auto asked = device().make_event(), done = device().make_event();
  std::vector<float> ones(5000, 1.0f);
  OnDevice<float> data(ones), twice(ones);
  for (int step = 0; step < 3; ++step) {
    device().add(data.data(), data.data(), data.data(), 5000);
    device().record(*asked);
    {
      const StreamScope scope(device(), DeviceStream::communication);
      device().wait_for(*asked);
      comm->start_all_reduce(data.data(), 5000);
      device().record(*done);
    }
    device().wait_for(*done);
    device().add(twice.data(), data.data(), data.data(), 5000);
  }
  const auto sum = float(8 * comm->size() * comm->size() * comm->size());
  EXPECT_THAT(twice.get(), Each(2 * sum));
  comm->require_healthy();
}

TEST_P(NcclCommunicator, IsCapturedInGraphs) {
  const auto comm = make_nccl();
  OnDevice<float> data(std::vector<float>(100, 1.0f)), sum(std::vector<float>(100));
  device().begin_capture();
  comm->start_all_reduce(data.data(), 100);
  device().add(sum.data(), data.data(), sum.data(), 100);
  {
    const auto graph = device().end_capture();
    EXPECT_THAT(data.get(), Each(1.0f)) << "captured, not done";
    for (int i = 0; i < 3; ++i) graph->launch();
    const auto n = float(comm->size());
    EXPECT_THAT(sum.get(), Each(n + n * n + n * n * n));
  }
  comm->require_healthy();
}

TEST_P(NcclCommunicator, IsCapturedOnTheOtherStream) {
  const auto comm = make_nccl();
  const auto asked = device().make_event(), done = device().make_event();
  OnDevice<float> data(std::vector<float>(100, 1.0f)), other(std::vector<float>(100, 1.0f));
  device().begin_capture();
  device().add(data.data(), data.data(), data.data(), 100);
  device().record(*asked);
  {
    const StreamScope scope(device(), DeviceStream::communication);
    device().wait_for(*asked);
    comm->start_all_reduce(data.data(), 100);
    device().record(*done);
  }
  device().add(other.data(), other.data(), other.data(), 100);
  device().wait_for(*done);
  device().add(data.data(), data.data(), other.data(), 100);
  const auto graph = device().end_capture();
  float expected = 1, doubled = 1;
  for (int i = 0; i < 3; ++i) {
    graph->launch();
    doubled *= 2;
    expected = 2 * expected * float(comm->size()) + doubled;
  }
  EXPECT_THAT(data.get(), Each(expected));
  comm->require_healthy();
}

TEST(NcclCommunicatorAlone, AnOrderThatAUserSwitchedOffIsSwitchedOn) {
  const auto value = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text == nullptr ? "not set" : text);
  };
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  unsetenv("NCCL_HOSTID");
  set_nccl_variables();
  EXPECT_EQ(value("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  EXPECT_EQ(value("NCCL_HOSTID"), "not set");
  set_nccl_variables(3);
  EXPECT_EQ(value("NCCL_HOSTID"), "lockstep-rank-3");
  unsetenv("NCCL_HOSTID");
}

TEST(NcclCommunicatorAlone, HostMemoryPassesThrough) {
  const auto comm = make_nccl();
  const int groups = fake().groups;
  const int rank = comm->rank();
  std::vector<int> ranks(std::size_t(comm->size()));
  comm->all_gather(&rank, ranks.data(), sizeof rank);
  EXPECT_EQ(ranks.back(), comm->size() - 1);
  int root = rank;
  comm->broadcast(&root, sizeof root, comm->size() - 1);
  EXPECT_EQ(root, comm->size() - 1);
  std::vector<std::size_t> bytes(ranks.size(), sizeof rank);
  comm->all_gather_v(&rank, ranks.data(), bytes);
  const auto pinned = device().allocate_host(4 * sizeof(float), "test");
  std::fill_n(pinned->as<float>(), 4, 1.0f);
  comm->start_all_reduce(pinned->as<float>(), 4)->wait();
  EXPECT_EQ(*pinned->as<float>(), float(comm->size()));
  EXPECT_EQ(fake().groups, groups);
}

TEST(NcclCommunicatorAlone, OneRankNeedsNoNccl) {
  const int joined = fake().joined, groups = fake().groups;
  NcclOptions options{.join_s = 30};
  if (testing::mpi_world().size() == 1) options.library = "libnccl-missing.so.2";
  const auto comm = make_nccl(options);
  EXPECT_EQ(fake().joined, joined + (comm->size() > 1));
  const auto alone = comm->split(comm->rank(), 0);
  EXPECT_EQ(alone->size(), 1);
  check_everything(*alone);
  EXPECT_EQ(fake().joined, joined + (comm->size() > 1));
  EXPECT_EQ(fake().groups, groups);
}

TEST(NcclCommunicatorAlone, MisuseIsAnErrorAndChangesNothing) {
  const auto comm = make_nccl();
  OnDevice<float> data(std::vector<float>(10));
  EXPECT_THROW(comm->broadcast(data.data(), 4, comm->size()), CommError);
  EXPECT_THROW(comm->broadcast(data.data(), 4, -1), CommError);
  float own = 0;
  EXPECT_THROW(comm->all_gather(&own, data.data(), sizeof own), CommError);
  std::vector<CommBlock> to(std::size_t(comm->size())), from = to;
  to[std::size_t(comm->rank())].elems = 1;
  EXPECT_THROW(comm->start_all_to_all(data.data(), to, data.data(), from), CommError);
  check_everything(*comm);
}

TEST(NcclCommunicatorAlone, RanksMeetOnceAndPartsComeFromSplits) {
  const int ids = fake().ids, splits = fake().splits;
  const auto comm = make_nccl();
  const auto all = comm->split(0, -comm->rank());
  const auto alone = comm->split(comm->rank(), 0);
  // The first rank has no part, and splits all the same.
  const auto others = comm->split(comm->rank() == 0 ? 1 : 0, comm->rank());
  const auto part_of_part = all->split(0, comm->rank());
  const int ranks = comm->size();
  EXPECT_EQ(fake().ids - ids, ranks > 1 && comm->rank() == 0 ? 1 : 0);
  EXPECT_EQ(fake().splits - splits, ranks == 1 ? 0 : 2 + (ranks > 2 && comm->rank() > 0 ? 1 : 0));
  for (Communicator* each : {comm.get(), all.get(), alone.get(), others.get(), part_of_part.get()})
    check_everything(*each);
}

TEST(NcclCommunicatorAlone, ManyRanksMeetAtSeveral) {
  const int ids = fake().ids;
  const auto comm = make_nccl({.join_s = 30, .ranks_per_root = 2});
  const bool is_root =
      comm->size() > 1 && (comm->rank() == 0 || (comm->rank() == 1 && comm->size() == 3) ||
                           (comm->rank() == 2 && comm->size() == 4));
  EXPECT_EQ(fake().ids - ids, is_root ? 1 : 0);
  check_everything(*comm);
}

// All are asked before any is waited for; then what is split is idle.
TEST_P(NcclCommunicator, IsSplitAfterItsWork) {
  const auto comm = make_nccl();
  OnDevice<float> data(std::vector<float>(5000, 1.0f));
  for (int i = 0; i < 3; ++i) comm->start_all_reduce(data.data(), 5000);
  const auto part = comm->split(0, comm->rank());
  part->start_all_reduce(data.data(), 5000);
  const auto n = float(comm->size());
  EXPECT_THAT(data.get(), Each(n * n * n * n));
}

TEST(NcclCommunicatorAlone, EndsInPeace) {
  const int joined = fake().joined, destroyed = fake().destroyed, aborted = fake().aborted;
  {
    const auto comm = make_nccl();
    const auto part = comm->split(0, comm->rank());
    check_all_reduce(*part, 10);
  }
  EXPECT_EQ(fake().joined - joined, testing::mpi_world().size() > 1 ? 2 : 0);
  EXPECT_EQ(fake().destroyed - destroyed, fake().joined - joined);
  EXPECT_EQ(fake().aborted, aborted);
}

}  // namespace
}  // namespace lockstep
