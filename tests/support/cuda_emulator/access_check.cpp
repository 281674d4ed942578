// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/access_check.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <vector>

#include "tests/support/cuda_emulator/block_run.h"
#include "tests/support/cuda_emulator/device_memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace lockstep::cuda {

extern unsigned char lockstep_dynamic_shared[];
__attribute__((aligned(1024))) unsigned char lockstep_dynamic_shared[emulator::kMaxSharedBytes];

}  // namespace lockstep::cuda

/// The linker's: where the program's own constants and variables lie.
extern "C" const char __executable_start[], _end[];

namespace lockstep::emulator {
namespace {

struct BlockStart {
  std::uint64_t stamp;
  uint3 index;
};

std::vector<BlockStart>& blocks_of_launch() {
  static std::vector<BlockStart> blocks;
  return blocks;
}

Region shared_memory(reinterpret_cast<std::byte*>(cuda::lockstep_dynamic_shared), kMaxSharedBytes);
std::size_t shared_bytes_of_block = 0;

bool is_write(Access access) { return access == Access::write || access == Access::atomic; }

std::string text_of_access(const void* address, std::size_t bytes, Access access) {
  const std::size_t offset = shared_memory.offset_of(address);
  return fmt::format("{} {} bytes at {}",
                     is_write(access) ? "writes" : "reads",
                     bytes,
                     offset < kMaxSharedBytes ? fmt::format("byte {} of shared memory", offset)
                                              : device_memory().describe(address));
}

uint3 block_of(std::uint64_t stamp) {
  const auto& blocks = blocks_of_launch();
  const auto after = std::upper_bound(
      blocks.begin(), blocks.end(), stamp, [](std::uint64_t s, const BlockStart& b) {
        return s < b.stamp;
      });
  return std::prev(after)->index;
}

uint3 thread_of(int number) {
  const unsigned x = blockDim.x, y = blockDim.y, n = unsigned(number);
  return {n % x, n / x % y, n / x / y};
}

[[noreturn]] void fail_race(
    const void* address, std::size_t bytes, Access access, const Record& other, bool other_wrote) {
  const bool same_block = other.of_this_block();
  block_run().fail(cudaErrorLaunchFailure,
                   fmt::format("race{}: {}, which thread {} of block {} {} with no {} between",
                               same_block ? "" : " between blocks",
                               text_of_access(address, bytes, access),
                               text_of(thread_of(other.thread())),
                               text_of(block_of(other.stamp())),
                               other_wrote ? "has written" : "has read",
                               same_block ? "barrier" : "order of blocks"));
}

void check_races(Region& region, const void* address, std::size_t bytes, Access access) {
  const bool must_be_written = &region == &shared_memory && !is_write(access);
  const Record* other = nullptr;
  bool unwritten = false;
  const Cell* cell = region.find_cell(region.offset_of(address), bytes, [&](Cell& c) {
    if (must_be_written && !c.written.of_this_block()) return unwritten = true;
    other = c.note(access);
    return other != nullptr;
  });
  if (cell == nullptr) return;
  if (unwritten)
    block_run().fail(cudaErrorLaunchFailure,
                     fmt::format("uninitialised shared memory: {}, which no thread of the block "
                                 "has written",
                                 text_of_access(address, bytes, access)));
  fail_race(address, bytes, access, *other, other == &cell->written);
}

[[noreturn]] void fail_bounds(const void* address, std::size_t bytes, Access access) {
  std::string text = "out of bounds: " + text_of_access(address, bytes, access);
  if (shared_memory.holds(address, 1))
    text += fmt::format(", of which the launch asked for {} bytes", shared_bytes_of_block);
  block_run().fail(cudaErrorIllegalAddress, text);
}

bool is_constant_of_program(const void* address) {
  return address >= __executable_start && address < _end;
}

}  // namespace

void require_aligned(const void* address, std::size_t bytes, const char* instruction) {
  const std::size_t beyond = std::uintptr_t(address) % bytes;
  if (beyond != 0)
    block_run().fail(cudaErrorMisalignedAddress,
                     fmt::format("unaligned: {} an address {} bytes behind a multiple of {}",
                                 instruction,
                                 beyond,
                                 bytes));
}

bool accesses_are_checked() {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return true;
#endif
}

void start_launch() {
  blocks_of_launch().clear();
  progress.launch_start = ++progress.now;
}

void start_block(uint3 index, std::size_t shared_bytes) {
  progress.block_start = progress.barrier = ++progress.now;
  std::ranges::fill(progress.warp_sync, progress.now);
  blocks_of_launch().push_back({progress.now, index});
  shared_memory.forget(std::max(shared_bytes, shared_bytes_of_block));
  shared_bytes_of_block = shared_bytes;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(cuda::lockstep_dynamic_shared, kMaxSharedBytes);
#endif
  std::memset(cuda::lockstep_dynamic_shared, 0xff, shared_bytes);
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(cuda::lockstep_dynamic_shared + shared_bytes,
                              kMaxSharedBytes - shared_bytes);
#endif
}

void check_access(const void* address, std::size_t bytes, Access access, bool aligned) {
  Region* region = &shared_memory;
  std::size_t end = shared_bytes_of_block;
  if (shared_memory.offset_of(address) >= kMaxSharedBytes) {
    if (access == Access::read && is_constant_of_program(address)) return;
    region = device_memory().find(address);
    if (region == nullptr) fail_bounds(address, bytes, access);
    end = region->bytes();
    if (!block_run().has_waited())
      block_run().fail(cudaErrorLaunchFailure,
                       fmt::format("touches memory too early: {}, before wait_for_earlier_work()",
                                   text_of_access(address, bytes, access)));
  }
  if (region->offset_of(address) + bytes > end) fail_bounds(address, bytes, access);
  if (aligned && std::uintptr_t(address) % bytes != 0)
    block_run().fail(cudaErrorMisalignedAddress,
                     fmt::format("unaligned: {}, which is not a multiple of {} bytes",
                                 text_of_access(address, bytes, access),
                                 bytes));
  check_races(*region, address, bytes, access);
}

}  // namespace lockstep::emulator
