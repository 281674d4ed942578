// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::emulator {

inline constexpr int kWarpLanes = 32;
inline constexpr int kMaxBlockThreads = 1024;
/// Shared memory that a kernel can ask for on an H100.
inline constexpr std::size_t kMaxSharedBytes = std::size_t{227} << 10;

/// Where the launch that runs has come to. Every event that orders threads takes the next number of
/// one count, and every access is stamped with the count as it stands: so an access came before an
/// event if its stamp is lower.
struct Progress {
  int thread = 0;  ///< the one that runs: its number in the block
  std::uint64_t now = 0;
  std::uint64_t launch_start = 0;
  std::uint64_t block_start = 0;
  std::uint64_t barrier = 0;  ///< the block's last, or its start
  std::uint64_t warp_sync[kMaxBlockThreads / kWarpLanes] = {};
  std::uintptr_t stacks = 0;  ///< of the threads, whose own they are
  std::size_t stack_bytes = 0;

  bool on_a_stack(const volatile void* address) const {
    return std::uintptr_t(address) - stacks < stack_bytes;
  }
  std::uint64_t& own_warp_sync() { return warp_sync[thread / kWarpLanes]; }
};
extern Progress progress;

/// A thread of a kernel runs on this thread of the host, and its accesses count.
extern constinit thread_local bool watched;

enum class Access : std::uint8_t { read, write, atomic, atomic_read };

/// Who read a word, as far as it matters for a write that comes later.
enum class Readers : std::uint8_t { one_thread, one_warp, one_block, several_blocks };

/// An access: whose, when, of which kind. All zero: never.
class Record {
 public:
  Record() = default;
  static Record of_now(Readers readers) { return Record(std::uint64_t(readers)); }
  static Record of_now(bool atomic) { return Record(std::uint64_t(atomic)); }

  std::uint64_t stamp() const { return bits_ >> 16; }
  int thread() const { return int(bits_ & 1023); }
  Readers readers() const { return Readers(bits_ >> 10 & 3); }
  bool atomic() const { return (bits_ >> 10 & 1) != 0; }

  bool of_this_launch() const { return stamp() >= progress.launch_start; }
  bool of_this_block() const { return stamp() >= progress.block_start; }
  bool of_this_warp() const { return thread() / kWarpLanes == progress.thread / kWarpLanes; }
  /// Nothing orders it before what the running thread does now, and another thread did it.
  bool conflicts() const {
    if (!of_this_launch()) return false;
    if (!of_this_block()) return true;
    if (stamp() < progress.barrier || thread() == progress.thread) return false;
    return !of_this_warp() || stamp() >= progress.own_warp_sync();
  }

 private:
  explicit Record(std::uint64_t kind)
      : bits_(progress.now << 16 | kind << 10 | std::uint64_t(progress.thread)) {}
  std::uint64_t bits_ = 0;
};

/// The last accesses to one word.
struct Cell {
  Record read, written;

  /// Notes an access; the record it races with, or null.
  const Record* note(Access access) {
    const bool atomic = access == Access::atomic || access == Access::atomic_read;
    if (written.conflicts() && !(atomic && written.atomic())) return &written;
    if (access == Access::atomic_read) return nullptr;
    if (access == Access::read) {
      read = Record::of_now(readers_with_this_one());
      return nullptr;
    }
    if (readers_conflict()) return &read;
    written = Record::of_now(atomic);
    return nullptr;
  }

 private:
  Readers readers_with_this_one() const {
    if (!read.of_this_launch()) return Readers::one_thread;
    if (!read.of_this_block() || read.readers() == Readers::several_blocks)
      return Readers::several_blocks;
    if (read.stamp() < progress.barrier) return Readers::one_thread;
    if (!read.of_this_warp() || read.readers() == Readers::one_block) return Readers::one_block;
    if (read.stamp() < progress.own_warp_sync()) return Readers::one_thread;
    return read.thread() == progress.thread ? read.readers() : Readers::one_warp;
  }
  bool readers_conflict() const {
    if (!read.of_this_launch()) return false;
    if (!read.of_this_block() || read.readers() == Readers::several_blocks) return true;
    if (read.stamp() < progress.barrier) return false;
    if (read.readers() == Readers::one_block) return true;
    if (read.readers() == Readers::one_warp)
      return !read.of_this_warp() || read.stamp() >= progress.own_warp_sync();
    return read.conflicts();
  }
};

}  // namespace lockstep::emulator
