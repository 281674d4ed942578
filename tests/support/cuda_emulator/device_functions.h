// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "tests/support/cuda_emulator/vector_types.h"

/// What a kernel's thread may call to learn its place and to meet other threads.

/// Of the thread that runs at the moment.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace lockstep::emulator {

using Site = std::source_location;

enum class WarpOperation : std::uint8_t { sync, shuffle, ballot };

/// Waits for every thread of the block, at the same place in the source.
void block_barrier(const Site& site);
/// How many threads of the block bring a nonzero `predicate`; waits like block_barrier.
int block_barrier_count(bool predicate, const Site& site);
/// Waits for the lanes of `mask`. shuffle: the `bits` that lane `source` brought; ballot: a mask of
/// the lanes whose bits are not 0.
std::uint64_t warp_operation(
    WarpOperation operation, unsigned mask, std::uint64_t bits, int source, const Site& site);
/// Ends the launch where `address` is not a multiple of `bytes`, as `instruction` wants it: for
/// twins of instructions, which move in other pieces.
void require_aligned(const void* address, std::size_t bytes, const char* instruction);
/// This thread's number in its warp.
int lane();
/// Notes that this thread has waited for what came before the launch; ends the launch where it has
/// done so already.
void wait_for_predecessors(const Site& site);
/// Ends the launch where this thread has not waited before.
void trigger_dependents(const Site& site);

template <typename T>
T shuffle(unsigned mask, T value, int source, const Site& site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_operation(WarpOperation::shuffle, mask, bits, source, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace lockstep::emulator

inline void __syncthreads(const std::source_location& site = std::source_location::current()) {
  lockstep::emulator::block_barrier(site);
}
inline int __syncthreads_count(int predicate,
                               const std::source_location& site = std::source_location::current()) {
  return lockstep::emulator::block_barrier_count(predicate != 0, site);
}
inline int __syncthreads_or(int predicate,
                            const std::source_location& site = std::source_location::current()) {
  return lockstep::emulator::block_barrier_count(predicate != 0, site) > 0;
}
inline int __syncthreads_and(int predicate,
                             const std::source_location& site = std::source_location::current()) {
  return lockstep::emulator::block_barrier_count(predicate == 0, site) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       const std::source_location& site = std::source_location::current()) {
  lockstep::emulator::warp_operation(lockstep::emulator::WarpOperation::sync, mask, 0, 0, site);
}
inline unsigned __ballot_sync(unsigned mask,
                              int predicate,
                              const std::source_location& site = std::source_location::current()) {
  return unsigned(lockstep::emulator::warp_operation(
      lockstep::emulator::WarpOperation::ballot, mask, predicate != 0, 0, site));
}
inline int __any_sync(unsigned mask,
                      int predicate,
                      const std::source_location& site = std::source_location::current()) {
  return __ballot_sync(mask, predicate, site) != 0;
}
inline int __all_sync(unsigned mask,
                      int predicate,
                      const std::source_location& site = std::source_location::current()) {
  return __ballot_sync(mask, predicate == 0, site) == 0;
}

/// Launches run one after another, so that there is nothing to wait for.
inline void cudaGridDependencySynchronize(
    const std::source_location& site = std::source_location::current()) {
  lockstep::emulator::wait_for_predecessors(site);
}
inline void cudaTriggerProgrammaticLaunchCompletion(
    const std::source_location& site = std::source_location::current()) {
  lockstep::emulator::trigger_dependents(site);
}

/// Lanes work in groups of `width`; a source outside the own group leaves the value as it is.
template <typename T>
T __shfl_sync(unsigned mask,
              T value,
              int source,
              int width = warpSize,
              const std::source_location& site = std::source_location::current()) {
  const int lane = lockstep::emulator::lane();
  return lockstep::emulator::shuffle(
      mask, value, lane / width * width + (source & (width - 1)), site);
}
template <typename T>
T __shfl_xor_sync(unsigned mask,
                  T value,
                  int distance,
                  int width = warpSize,
                  const std::source_location& site = std::source_location::current()) {
  const int lane = lockstep::emulator::lane(), other = lane ^ distance;
  return lockstep::emulator::shuffle(
      mask, value, other < (lane / width + 1) * width ? other : lane, site);
}
template <typename T>
T __shfl_down_sync(unsigned mask,
                   T value,
                   int distance,
                   int width = warpSize,
                   const std::source_location& site = std::source_location::current()) {
  const int lane = lockstep::emulator::lane(), other = lane + distance;
  return lockstep::emulator::shuffle(
      mask, value, other < (lane / width + 1) * width ? other : lane, site);
}
template <typename T>
T __shfl_up_sync(unsigned mask,
                 T value,
                 int distance,
                 int width = warpSize,
                 const std::source_location& site = std::source_location::current()) {
  const int lane = lockstep::emulator::lane(), other = lane - distance;
  return lockstep::emulator::shuffle(
      mask, value, other >= lane / width * width ? other : lane, site);
}

/// Blocks run one after another and threads one at a time: what one wrote, all see.
inline void __threadfence() {}
inline void __threadfence_block() {}

/// Integers only: the order of floating atomics would change bits (see launch.cuh).
#define LOCKSTEP_ATOMIC(name, builtin)                                               \
  template <typename T>                                                              \
  requires std::is_integral_v<T> T name(T* address, std::type_identity_t<T> value) { \
    return __atomic_##builtin(address, value, __ATOMIC_RELAXED);                     \
  }
LOCKSTEP_ATOMIC(atomicAdd, fetch_add)
LOCKSTEP_ATOMIC(atomicSub, fetch_sub)
LOCKSTEP_ATOMIC(atomicAnd, fetch_and)
LOCKSTEP_ATOMIC(atomicOr, fetch_or)
LOCKSTEP_ATOMIC(atomicXor, fetch_xor)
LOCKSTEP_ATOMIC(atomicExch, exchange_n)
#undef LOCKSTEP_ATOMIC

template <typename T>
requires std::is_integral_v<T> T atomicCAS(T* address,
                                           std::type_identity_t<T> compare,
                                           std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}
template <typename T>
requires std::is_integral_v<T> T atomicMax(T* address, std::type_identity_t<T> value) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  __atomic_store_n(address, old > value ? old : value, __ATOMIC_RELAXED);
  return old;
}
template <typename T>
requires std::is_integral_v<T> T atomicMin(T* address, std::type_identity_t<T> value) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  __atomic_store_n(address, old < value ? old : value, __ATOMIC_RELAXED);
  return old;
}

/// Loads and stores with a hint for the caches.
#define LOCKSTEP_LOAD(name)  \
  template <typename T>      \
  T name(const T* address) { \
    return *address;         \
  }
#define LOCKSTEP_STORE(name)                             \
  template <typename T>                                  \
  void name(T* address, std::type_identity_t<T> value) { \
    *address = value;                                    \
  }
LOCKSTEP_LOAD(__ldg)
LOCKSTEP_LOAD(__ldcs)
LOCKSTEP_LOAD(__ldcg)
LOCKSTEP_LOAD(__ldca)
LOCKSTEP_LOAD(__ldlu)
LOCKSTEP_STORE(__stcs)
LOCKSTEP_STORE(__stcg)
LOCKSTEP_STORE(__stwt)
LOCKSTEP_STORE(__stwb)
#undef LOCKSTEP_LOAD
#undef LOCKSTEP_STORE
