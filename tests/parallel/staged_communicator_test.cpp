// SPDX-License-Identifier: Apache-2.0
// Communicators of devices, over MPI.
#include "parallel/comm/staged_communicator.h"

#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <list>
#include <utility>
#include <vector>

#include "tests/parallel/claimed_hosts.h"
#include "tests/parallel/communicator_checks.h"
#include "tests/support/mpi_world.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::Each;

/// Takes all memory for its device's but that of allocate_host(), and counts the copies, which
/// happen when the host waits for an event, or has asked `polls` times whether it has happened.
class FarBackend final : public testing::NullBackend {
 public:
  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(*this); }
  std::unique_ptr<DeviceBuffer> allocate_host(std::size_t bytes, const std::string& what) override {
    return std::make_unique<Pinned>(NullBackend::allocate(bytes, what), host_);
  }
  bool is_host_memory(const void* memory) const override {
    const auto* byte = static_cast<const std::byte*>(memory);
    return std::any_of(host_.begin(), host_.end(), [&](const Range& range) {
      return byte >= range.begin && byte < range.end;
    });
  }
  void copy_to_device(void* to, const void* from, std::size_t bytes) override {
    EXPECT_TRUE(bytes == 0 || (is_host_memory(from) && !is_host_memory(to)));
    to_device += bytes;
    ++copies_to_device;
    under_way_.push_back([=, this] { copy(to, from, bytes); });
  }
  void start_copy_to_host(void* to, const void* from, std::size_t bytes) override {
    EXPECT_TRUE(is_host_memory(to) && !is_host_memory(from));
    to_host += bytes;
    ++copies_to_host;
    std::memset(to, 0xab, bytes);
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
  int copies_to_device = 0, copies_to_host = 0;
  int polls = 0;

 private:
  class Event final : public DeviceEvent {
   public:
    explicit Event(FarBackend& backend) : backend_(backend) {}
    void wait() override {
      asked_ = 0;
      backend_.synchronize();
    }
    bool done() override {
      if (backend_.under_way_.empty()) return true;
      if (++asked_ <= backend_.polls) return false;
      wait();
      return true;
    }

   private:
    FarBackend& backend_;
    int asked_ = 0;
  };
  struct Range {
    const std::byte *begin, *end;
  };
  /// Counts as the host's while it lives: the heap may give its addresses to the device's memory
  /// later.
  class Pinned final : public DeviceBuffer {
   public:
    Pinned(std::unique_ptr<DeviceBuffer> buffer, std::list<Range>& ranges)
        : buffer_(std::move(buffer)),
          ranges_(ranges),
          range_(
              ranges.insert(ranges.end(), {buffer_->data(), buffer_->data() + buffer_->bytes()})) {}
    ~Pinned() override { ranges_.erase(range_); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    std::byte* data() override { return buffer_->data(); }
    std::size_t bytes() const override { return buffer_->bytes(); }

   private:
    std::unique_ptr<DeviceBuffer> buffer_;
    std::list<Range>& ranges_;
    std::list<Range>::iterator range_;
  };

  std::list<Range> host_;
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
  /// Which is of host memory alone, this test's own here.
  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    inner_.gather(send, recv, bytes, root);
  }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    expect_host(send), expect_host(recv);
    inner_.all_gather(send, recv, bytes);
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    expect_host(send), expect_host(recv);
    inner_.all_gather_v(send, recv, bytes);
  }
  void all_reduce_max(std::span<std::uint64_t> values) override { inner_.all_reduce_max(values); }
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

TEST(StagedCommunicator, CarriesWhatTheNetworkDoesNotReach) {
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

// Of all that a rank has to send and to receive, wherever its own block lies.
TEST(StagedCommunicator, NeighbouringBlocksAreOneCopy) {
  FarBackend backend;
  HostOnly host(testing::mpi_world(), backend);
  const auto staged = make_staged_communicator(host, backend);
  const int ranks = staged->size(), rank = staged->rank();
  if (ranks == 1) GTEST_SKIP() << "nothing is sent";
  std::vector<float> data(std::size_t(ranks) * 8, float(rank)), received(data);
  std::vector<CommBlock> to, from, all;
  for (int r = 0; r < ranks; ++r) {
    const bool own = r == rank;
    to.push_back(own ? CommBlock{} : CommBlock{8 * r, 8});
    from.push_back(own ? CommBlock{} : CommBlock{8 * (r - (r > rank ? 1 : 0)), 8});
    all.push_back({8 * r, 8});
  }
  staged->start_all_to_all(data.data(), to, received.data(), from)->wait();
  backend.synchronize();
  for (int r = 0; r < ranks; ++r)
    EXPECT_TRUE(r == rank || received[std::size_t(from[std::size_t(r)].offset)] == float(r)) << r;
  const bool inside = rank > 0 && rank + 1 < ranks;
  EXPECT_EQ(backend.copies_to_host, inside ? 2 : 1);
  EXPECT_EQ(backend.copies_to_device, 1);

  backend.copies_to_host = backend.copies_to_device = 0;
  staged->start_all_gather(data.data(), all)->wait();
  backend.synchronize();
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(data[std::size_t(8 * r)], float(r));
  EXPECT_EQ(backend.copies_to_host, 1);
  EXPECT_EQ(backend.copies_to_device, 1);

  // The same block to all.
  backend.copies_to_host = 0;
  for (CommBlock& block : to) block = {8 * rank, 8};
  staged->start_all_to_all(data.data(), to, received.data(), all)->wait();
  backend.synchronize();
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(received[std::size_t(8 * r)], float(r));
  EXPECT_EQ(backend.copies_to_host, 1);
}

// The device of each rank is late, of one more than of another, and the host looks at the second
// collective first.
TEST(StagedCommunicator, CollectivesStartInTheOrderAskedFor) {
  FarBackend backend;
  HostOnly host(testing::mpi_world(), backend);
  const auto staged = make_staged_communicator(host, backend);
  backend.polls = 2 + 5 * staged->rank();
  for (int round = 0; round < 3; ++round) {
    std::vector<float> first(100, 1.0f), second(50, 2.0f), third(std::size_t(staged->size()));
    const CommRequestPtr one = staged->start_all_reduce(first.data(), 100);
    const CommRequestPtr two = staged->start_all_reduce(second.data(), 50);
    EXPECT_FALSE(two->test());
    // One that blocks comes after both.
    const float own = float(staged->rank());
    staged->all_gather(&own, third.data(), sizeof own);
    while (!two->test() || !one->test()) {
    }
    backend.synchronize();
    EXPECT_THAT(first, Each(float(staged->size())));
    EXPECT_THAT(second, Each(2.0f * float(staged->size())));
    for (int r = 0; r < staged->size(); ++r) EXPECT_EQ(third[std::size_t(r)], float(r));
  }
}

TEST(StagedCommunicator, PassesHostMemoryThrough) {
  FarBackend backend;
  HostOnly host(testing::mpi_world(), backend);
  const auto staged = make_staged_communicator(host, backend);
  const auto memory = backend.allocate_host(sizeof(int), "test");
  *memory->as<int>() = staged->rank();
  staged->broadcast(memory->data(), sizeof(int), staged->size() - 1);
  EXPECT_EQ(*memory->as<int>(), staged->size() - 1);
  EXPECT_EQ(backend.to_device + backend.to_host, 0u);
}

TEST(StagedCommunicator, WhatTheNetworkReachesIsNotCopied) {
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

TEST(StagedCommunicator, HasTheHostsOfWhatItIsMadeOf) {
  NullBackend backend;
  Traffic traffic;
  ClaimedHosts claimed(mpi_world(), 1, traffic);
  EXPECT_EQ(make_staged_communicator(claimed, backend)->ranks_per_node(), 1);
}

}  // namespace
}  // namespace lockstep
