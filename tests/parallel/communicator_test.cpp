// SPDX-License-Identifier: Apache-2.0
// Communicators: on one rank SelfCommunicator and MPI, on several MPI.
#include <functional>
#include <gmock/gmock.h>
#include <numeric>

#include "core/base/error.h"
#include "parallel/mpi_communicator.h"
#include "parallel/mpi_session.h"
#include "parallel/mpi_try.h"
#include "parallel/self_communicator.h"
#include "parallel/staged_communicator.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/support/mpi_world.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Small integers: sums are exact in any order.
float value(int from, int to, std::int64_t i) { return float(100 * from + 10 * to + i % 7); }

/// Waits for the device that the data under test is taken to lie on.
std::function<void()> wait_for_device = [] {};

void check_blocking(Communicator& comm) {
  const int rank = comm.rank(), size = comm.size();
  for (int root = 0; root < size; ++root) {
    std::vector<int> data(1000, rank);
    comm.broadcast(data.data(), data.size() * sizeof(int), root);
    wait_for_device();
    EXPECT_THAT(data, Each(root));
  }
  std::vector<int> ranks(std::size_t(size), -1), expected(std::size_t(size), 0);
  std::iota(expected.begin(), expected.end(), 0);
  comm.all_gather(&rank, ranks.data(), sizeof rank);
  wait_for_device();
  EXPECT_EQ(ranks, expected);

  // Rank r contributes r copies of r: rank 0 nothing.
  std::vector<std::size_t> bytes;
  std::vector<int> all;
  for (int r = 0; r < size; ++r) {
    bytes.push_back(std::size_t(r) * sizeof(int));
    all.insert(all.end(), std::size_t(r), r);
  }
  const std::vector<int> own(std::size_t(rank) + 1, rank);
  std::vector<int> received(all.size() + 1, -1);
  comm.all_gather_v(own.data(), received.data(), bytes);
  wait_for_device();
  EXPECT_EQ(received.back(), -1) << "written past the end";
  received.pop_back();
  EXPECT_EQ(received, all);
  comm.barrier();
}

// Rank a sends 3 + a + b elements to rank b, with gaps around the blocks.
void check_all_to_all(Communicator& comm) {
  const int rank = comm.rank(), size = comm.size();
  std::vector<CommBlock> to, from;
  std::int64_t sent = 1, received = 1;
  for (int r = 0; r < size; ++r) {
    const std::int64_t elems = 3 + rank + r;
    to.push_back({sent, elems});
    from.push_back({received, elems});
    sent += elems + 2;
    received += elems + 1;
  }
  std::vector<float> send(std::size_t(sent), -2.0f), recv(std::size_t(received), -1.0f);
  for (int r = 0; r < size; ++r)
    for (std::int64_t i = 0; i < to[std::size_t(r)].elems; ++i)
      send[std::size_t(to[std::size_t(r)].offset + i)] = value(rank, r, i);
  std::vector<float> expected = recv;
  for (int r = 0; r < size; ++r)
    for (std::int64_t i = 0; i < from[std::size_t(r)].elems; ++i)
      expected[std::size_t(from[std::size_t(r)].offset + i)] = value(r, rank, i);
  comm.start_all_to_all(send.data(), to, recv.data(), from)->wait();
  wait_for_device();
  EXPECT_EQ(recv, expected);
}

void check_all_gather(Communicator& comm, std::int64_t unit) {
  const int rank = comm.rank(), size = comm.size();
  std::vector<CommBlock> blocks;
  std::vector<float> data, expected;
  for (int r = 0; r < size; ++r) {
    blocks.push_back({std::int64_t(data.size()), unit * r});
    for (std::int64_t i = 0; i < unit * r; ++i) {
      data.push_back(r == rank ? value(r, 0, i) : -1.0f);
      expected.push_back(value(r, 0, i));
    }
  }
  const auto request = comm.start_all_gather(data.data(), blocks);
  while (!request->test()) {
  }
  EXPECT_TRUE(request->test()) << "a complete request stays complete";
  request->wait();
  wait_for_device();
  EXPECT_EQ(data, expected);
}

void check_all_reduce(Communicator& comm, std::int64_t elems) {
  std::vector<float> data, expected;
  for (std::int64_t i = 0; i < elems; ++i) {
    data.push_back(value(comm.rank(), 1, i));
    float sum = 0;
    for (int r = 0; r < comm.size(); ++r) sum += value(r, 1, i);
    expected.push_back(sum);
  }
  comm.start_all_reduce(data.data(), elems)->wait();
  wait_for_device();
  EXPECT_EQ(data, expected);
}

void check_everything(Communicator& comm) {
  check_blocking(comm);
  check_all_to_all(comm);
  check_all_gather(comm, 5);
  check_all_gather(comm, 50000);
  check_all_reduce(comm, 1);
  check_all_reduce(comm, 100000);
}

TEST(Communicator, SelfDoesEverythingAlone) {
  SelfCommunicator self;
  check_everything(self);
  check_everything(*self.split(3, 1));
  EXPECT_THROW(self.broadcast(nullptr, 0, 1), CommError);
  self.abort(1);  // Nobody to end: returns.
}

/// Takes all memory for its device's but that of allocate_host(), and counts the copies; those to
/// the device happen as late as they may.
class FarBackend final : public testing::NullBackend {
 public:
  std::unique_ptr<DeviceBuffer> allocate_host(std::size_t bytes, const std::string& what) override {
    auto buffer = NullBackend::allocate(bytes, what);
    host_.emplace_back(buffer->data(), bytes);
    return buffer;
  }
  bool is_host_memory(const void* memory) const override {
    const auto* byte = static_cast<const std::byte*>(memory);
    for (const auto& [begin, bytes] : host_)
      if (byte >= begin && byte < begin + bytes) return true;
    return false;
  }
  void copy_to_device(void* to, const void* from, std::size_t bytes) override {
    EXPECT_TRUE(bytes == 0 || (is_host_memory(from) && !is_host_memory(to)));
    to_device += bytes;
    under_way_.push_back([=, this] { copy(to, from, bytes); });
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    EXPECT_TRUE(bytes == 0 || (is_host_memory(to) && !is_host_memory(from)));
    to_host += bytes;
    synchronize();
    copy(to, from, bytes);
  }
  void synchronize() override {
    for (const auto& copying : under_way_) copying();
    under_way_.clear();
  }

  std::size_t to_device = 0, to_host = 0;

 private:
  std::vector<std::pair<const std::byte*, std::size_t>> host_;
  std::vector<std::function<void()>> under_way_;
};

/// Fails a test that hands it the device's memory.
class HostOnly final : public Communicator {
 public:
  HostOnly(Communicator& inner, const FarBackend& backend) : inner_(inner), backend_(backend) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void barrier() override { inner_.barrier(); }
  void broadcast(void* data, std::size_t bytes, int root) override {
    expect_host(data);
    inner_.broadcast(data, bytes, root);
  }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    expect_host(send), expect_host(recv);
    inner_.all_gather(send, recv, bytes);
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    expect_host(send), expect_host(recv);
    inner_.all_gather_v(send, recv, bytes);
  }
  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    expect_host(send), expect_host(recv);
    return inner_.start_all_to_all(send, to, recv, from);
  }
  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    expect_host(data);
    return inner_.start_all_gather(data, blocks);
  }
  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    expect_host(data);
    return inner_.start_all_reduce(data, elems);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return inner_.split(color, key);
  }
  void abort(int code) override { inner_.abort(code); }

 private:
  void expect_host(const void* memory) const {
    EXPECT_TRUE(memory == nullptr || backend_.is_host_memory(memory));
  }
  Communicator& inner_;
  const FarBackend& backend_;
};

TEST(Communicator, StagedCarriesWhatTheNetworkDoesNotReach) {
  FarBackend backend;
  HostOnly host(testing::mpi_world(), backend);
  const auto staged = make_staged_communicator(host, backend);
  staged->reserve_requests(2);
  wait_for_device = [&] { backend.synchronize(); };
  check_everything(*staged);
  EXPECT_GT(backend.to_device, 0u);
  EXPECT_GT(backend.to_host, 0u);
  const int allocations = backend.allocations();
  check_everything(*staged);
  EXPECT_EQ(backend.allocations(), allocations) << "the stages do not grow twice";

  // Two at a time, the second before the device has taken what the first brought.
  const CommBlock whole{0, 1000};
  std::vector<float> first(1000, 1.0f), second(1000, 2.0f);
  staged->start_all_reduce(first.data(), whole.elems)->wait();
  staged->start_all_reduce(second.data(), whole.elems)->wait();
  wait_for_device();
  EXPECT_THAT(first, Each(float(staged->size())));
  EXPECT_THAT(second, Each(2.0f * float(staged->size())));
  wait_for_device = [] {};
}

TEST(Communicator, StagedPassesHostMemoryThrough) {
  FarBackend backend;
  HostOnly host(testing::mpi_world(), backend);
  const auto staged = make_staged_communicator(host, backend);
  const auto memory = backend.allocate_host(sizeof(int), "test");
  *memory->as<int>() = staged->rank();
  staged->broadcast(memory->data(), sizeof(int), staged->size() - 1);
  EXPECT_EQ(*memory->as<int>(), staged->size() - 1);
  EXPECT_EQ(backend.to_device + backend.to_host, 0u);
}

TEST(Communicator, WhatTheNetworkReachesIsNotCopied) {
  FarBackend backend;
  const auto staged =
      make_staged_communicator(testing::mpi_world(), backend, DeviceReach::all_but_all_reduce);
  // The device is still at it when it is asked for.
  std::vector<float> data(std::size_t(staged->size()), -1.0f), late(1, float(staged->rank()));
  const auto pinned = backend.allocate_host(sizeof(float), "test");
  *pinned->as<float>() = late[0];
  backend.copy_to_device(&data[std::size_t(staged->rank())], pinned->data(), sizeof(float));
  const std::size_t copied = backend.to_device;
  std::vector<CommBlock> blocks;
  for (int r = 0; r < staged->size(); ++r) blocks.push_back({r, 1});
  staged->start_all_gather(data.data(), blocks)->wait();
  for (int r = 0; r < staged->size(); ++r) EXPECT_EQ(data[std::size_t(r)], float(r));
  check_blocking(*staged);
  check_all_to_all(*staged);
  check_all_gather(*staged, 50000);
  EXPECT_EQ(backend.to_device, copied);
  EXPECT_EQ(backend.to_host, 0u);
  wait_for_device = [&] { backend.synchronize(); };
  check_all_reduce(*staged, 100);
  wait_for_device = [] {};
  EXPECT_GT(backend.to_host, 0u);
}

TEST(Communicator, MpiDoesEverything) { check_everything(testing::mpi_world()); }

TEST(Communicator, MessagesDoEverything) {
  const MpiSession session;
  const auto world = make_mpi_communicator(session, MpiExchange::messages);
  check_everything(*world);
  check_everything(*world->split(world->rank() % 2, -world->rank()));

  // Exchanges in flight together take each other's messages for none of theirs.
  const std::size_t ranks = std::size_t(world->size());
  std::vector<std::vector<float>> sent(6), received(6);
  std::vector<CommRequestPtr> requests;
  std::vector<CommBlock> blocks;
  for (std::size_t r = 0; r < ranks; ++r) blocks.push_back({std::int64_t(r) * 30000, 30000});
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i].assign(ranks * 30000, float(10 * i) + float(world->rank()));
    received[i].assign(ranks * 30000, -1.0f);
    requests.push_back(world->start_all_to_all(sent[i].data(), blocks, received[i].data(), blocks));
  }
  while (!requests.empty()) requests.pop_back();
  for (std::size_t i = 0; i < sent.size(); ++i)
    for (std::size_t j = 0; j < received[i].size(); ++j)
      ASSERT_EQ(received[i][j], float(10 * i + j / 30000)) << i << ' ' << j;
}

TEST(Communicator, RanksOfATestShareOneHost) {
  Communicator& world = testing::mpi_world();
  EXPECT_EQ(world.ranks_per_node(), world.size());
  const auto part = world.split(world.rank() % 2, world.rank());
  EXPECT_EQ(part->ranks_per_node(), part->size());
  EXPECT_EQ(SelfCommunicator().ranks_per_node(), 1);
  testing::NullBackend backend;
  testing::Traffic traffic;
  testing::ClaimedHosts claimed(world, 1, traffic);
  EXPECT_EQ(make_staged_communicator(claimed, backend)->ranks_per_node(), 1);
}

TEST(Communicator, SplitGroupsByColorAndOrdersByKey) {
  Communicator& world = testing::mpi_world();
  // Odd and even ranks, in reverse order.
  const auto part = world.split(world.rank() % 2, -world.rank());
  const int members = (world.size() + 1 - world.rank() % 2) / 2;
  ASSERT_EQ(part->size(), members);
  EXPECT_EQ(part->rank(), members - 1 - world.rank() / 2);
  check_everything(*part);
  check_everything(*part->split(0, 0));
}

TEST(Communicator, RequestsInFlightTogetherKeepApart) {
  Communicator& world = testing::mpi_world();
  const auto other = world.split(0, world.rank());
  std::vector<std::vector<float>> data(8, std::vector<float>(30000));
  std::vector<CommRequestPtr> requests;
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i].assign(30000, float(i + 1));
    requests.push_back((i % 2 ? world : *other).start_all_reduce(data[i].data(), 30000));
  }
  while (!requests.empty()) {
    requests.back()->wait();
    requests.pop_back();
  }
  for (std::size_t i = 0; i < data.size(); ++i)
    EXPECT_THAT(data[i], Each(float(i + 1) * float(world.size())));
}

TEST(Communicator, DroppedRequestIsCompleted) {
  Communicator& world = testing::mpi_world();
  std::vector<float> data(100000, 1.0f);
  world.start_all_reduce(data.data(), 100000).reset();
  EXPECT_THAT(data, Each(float(world.size())));
}

TEST(Communicator, MpiErrorsAreThrown) {
  Communicator& world = testing::mpi_world();
  int data = 0;
  try {
    world.broadcast(&data, sizeof data, world.size());
    FAIL() << "a root that does not exist was accepted";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("MPI_Bcast"));
    EXPECT_THAT(error.what(), HasSubstr("MPI_ERR_ROOT"));
    EXPECT_FALSE(error.hint().empty());
  }
  const auto part = world.split(0, 0);
  EXPECT_THROW(part->broadcast(&data, sizeof data, -1), CommError)
      << "split lost the error handler";
  EXPECT_THROW(world.split(-1, 0), CommError);
}

TEST(Communicator, TooManyElementsAreRefused) {
  Communicator& world = testing::mpi_world();
  const std::int64_t many = std::int64_t{1} << 31;
  const std::vector<CommBlock> long_blocks(std::size_t(world.size()), CommBlock{0, many});
  const std::vector<CommBlock> far_blocks(std::size_t(world.size()), CommBlock{many, 1});
  const std::vector<CommBlock> empty(std::size_t(world.size()));
  EXPECT_THROW(world.start_all_reduce(nullptr, many), CommError);
  EXPECT_THROW(world.start_all_gather(nullptr, long_blocks), CommError);
  EXPECT_THROW(world.start_all_to_all(nullptr, far_blocks, nullptr, empty), CommError);
  check_all_reduce(world, 10);  // Nothing was started: the communicator still works.
}

TEST(MpiSession, SecondSessionLeavesMpiRunning) {
  { const MpiSession nested; }
  EXPECT_TRUE(MpiSession::running());
  check_blocking(testing::mpi_world());
}

#ifdef OPEN_MPI
/// What MPI itself says of one of its settings; -1: it knows none of that name.
int setting_of_mpi(const char* name) {
  int provided = 0, index = -1, count = 0, value = -1;
  MPI_T_cvar_handle handle = nullptr;
  // Open MPI takes this level for that of the whole program.
  if (MPI_T_init_thread(MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return -1;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return value;
}

TEST(Communicator, SendsBothWaysOfATcpConnectionAtOnce) {
  const int flags = setting_of_mpi("btl_tcp_flags");
  ASSERT_NE(flags, -1);
  constexpr int kSend = 1, kPut = 2;  // of MCA_BTL_FLAGS
  EXPECT_TRUE(flags & kSend);
  EXPECT_FALSE(flags & kPut);
}
#endif

}  // namespace
}  // namespace lockstep
