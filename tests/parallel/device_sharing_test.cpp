// SPDX-License-Identifier: Apache-2.0
// Ranks that share a device: that they know it, and that what they read of its free memory does not
// depend on who is late.
#include "parallel/replica/device_sharing.h"

#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "core/exec/dry_backend.h"
#include "parallel/memory/memory_headroom.h"
#include "tests/parallel/shared_folder.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kAll = 1024 * kMiB;
constexpr std::chrono::milliseconds kLate{60};

int own_rank() { return testing::mpi_world().rank(); }
int ranks() { return testing::mpi_world().size(); }
bool is_late() { return own_rank() == ranks() - 1; }

DeviceMemory gpu(const std::string& pool) { return {.free = {}, .total = 0, .pool = pool}; }
DeviceMemory group(const std::string& name) {
  return {.free = {}, .total = 0, .pool = {}, .group = name};
}

TEST(DeviceSharing, OfAGpuIsToldByItsUuid) {
  const std::uint64_t here = device_key(gpu("0000:01:00.0 0123"), "a");
  EXPECT_EQ(here, device_key(gpu("0000:01:00.0 0123"), "a"));
  EXPECT_EQ(here, device_key(gpu("0000:00:07.0 0123"), "a sandbox"));
  EXPECT_NE(here, device_key(gpu("0000:01:00.0 4567"), "a")) << "parts of one (MIG)";
  EXPECT_NE(here, device_key(gpu("0000:01:00.0 4567"), "b"));
}

TEST(DeviceSharing, OfAGpuWithoutUuidIsToldByItsMachine) {
  for (const char* pool : {"0000:01:00.0 ", "0000:01:00.0 0000"}) {
    EXPECT_EQ(device_key(gpu(pool), "a"), device_key(gpu(pool), "a")) << pool;
    EXPECT_NE(device_key(gpu(pool), "a"), device_key(gpu(pool), "b")) << pool;
  }
}

TEST(DeviceSharing, OfTheHostIsToldByItsMachineAndGroup) {
  EXPECT_EQ(device_key(group(""), "a"), device_key(group(""), "a"));
  EXPECT_NE(device_key(group(""), "a"), device_key(group(""), "b"));
  EXPECT_EQ(device_key(group("/ 17"), "a"), device_key(group("/ 17"), "a"));
  EXPECT_NE(device_key(group("/ 17"), "a"), device_key(group("/ 18"), "a"));
  EXPECT_NE(device_key(group("/x 17"), "a"), device_key(group("/y 17"), "a"));
  EXPECT_NE(device_key(group("/ 17"), "a"), device_key(group("/ 17"), "b"));
}

/// The bytes that are gone of a GPU, which all ranks see.
class SharedGpu final : public DryBackend {
 public:
  SharedGpu() {
    const int file = open((folder_ / "gone").c_str(), O_RDWR | O_CREAT, 0600);
    LOCKSTEP_ASSERT(file >= 0 && ftruncate(file, sizeof(Gone)) == 0);
    void* memory = mmap(nullptr, sizeof(Gone), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    LOCKSTEP_ASSERT(memory != MAP_FAILED);
    gone_ = static_cast<Gone*>(memory);
    close(file);
    testing::mpi_world().barrier();
    at_start_ = kAll - *gone_;
  }
  ~SharedGpu() override { munmap(gone_, sizeof(Gone)); }
  SharedGpu(const SharedGpu&) = delete;
  SharedGpu& operator=(const SharedGpu&) = delete;

  void take(std::uint64_t bytes) { *gone_ += bytes; }
  void give_back(std::uint64_t bytes) { *gone_ -= bytes; }
  /// A late rank reads late as well.
  DeviceMemory memory() const override {
    if (is_late()) std::this_thread::sleep_for(kLate);
    return {kAll - *gone_, kAll, "0000:01:00.0 0123", {}, {}, at_start_};
  }

 private:
  using Gone = std::atomic<std::uint64_t>;
  testing::SharedFolder folder_;
  Gone* gone_ = nullptr;
  std::uint64_t at_start_ = 0;
};

class OneRank final : public RankContext {
 public:
  Backend& backend() override { return gpu; }
  Communicator& communicator() override { return testing::mpi_world(); }
  SharedGpu gpu;
};

TEST(DeviceSharing, RanksOfOneMachineThatShareItAreCounted) {
  OneRank rank;
  const ColocatedReadings all = read_together(testing::mpi_world(), rank.gpu, kMiB);
  EXPECT_EQ(all.ranks, ranks());
  EXPECT_EQ(all.reserved, std::uint64_t(ranks()) * kMiB);
}

std::uint64_t in_parts(std::uint64_t bytes) { return bytes / std::uint64_t(ranks()); }

/// Each takes a MiB before and after `read`, which so sees all of the first and nothing of the
/// second, and nothing of what a late rank gave back meanwhile.
template <typename Read>
void expect_reading(OneRank& rank, Read read) {
  constexpr std::uint64_t kGivenBack = 100 * kMiB;
  if (is_late()) rank.gpu.take(kGivenBack);
  testing::mpi_world().barrier();
  if (is_late()) {
    std::this_thread::sleep_for(kLate);
    rank.gpu.give_back(kGivenBack);
  }
  rank.gpu.take(kMiB);
  const std::uint64_t seen = read();
  rank.gpu.take(kMiB);
  EXPECT_EQ(seen, in_parts(kAll - std::uint64_t(ranks()) * kMiB));
}

TEST(SharedMemory, WhatIsFreeIsReadWhileNobodyTakesAny) {
  OneRank rank;
  expect_reading(rank, [&] { return free_part(testing::mpi_world(), rank.gpu); });
}

TEST(SharedMemory, RoomIsReadWhileNobodyTakesAny) {
  OneRank rank;
  expect_reading(rank, [&] {
    const MemoryHeadroom own = memory_headroom(rank);
    EXPECT_EQ(own.bytes, headroom_of_rank(testing::mpi_world(), own, 0).bytes);
    return own.bytes.value();
  });
}

TEST(SharedMemory, ContextIsAnEqualPartOfWhatIsGoneAndNotReserved) {
  OneRank rank;
  if (is_late()) std::this_thread::sleep_for(kLate);
  const std::uint64_t reserved = is_late() ? 7 * kMiB : 2 * kMiB;
  rank.gpu.take(reserved + 3 * kMiB);
  EXPECT_EQ(context_part(testing::mpi_world(), rank.gpu, reserved), 3 * kMiB);
  rank.gpu.take(kMiB);
  EXPECT_EQ(context_part(testing::mpi_world(), rank.gpu, kAll), std::nullopt);
}

}  // namespace
}  // namespace lockstep
