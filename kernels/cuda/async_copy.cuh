// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kernels/cuda/vector_access.cuh"

namespace lockstep::cuda {

/// Copies from global to shared memory that a thread starts, does other work, and waits for: PTX
/// ISA, section on cp.async. `bytes` is 4 or 16, to which both addresses are aligned; zeros come
/// where `exists` is false. From start() to wait() no thread may use what is at `to`; after wait()
/// this thread sees it, after the next barrier the others do.
///
/// The plain twin, which the emulator runs, writes NaN at once and the numbers when it waits: so
/// that who reads too early, and who starts while others still read, is found.
class AsyncCopies {
 public:
#ifdef __CUDACC__
  template <int bytes>
  __device__ void start(void* to, const void* from, bool exists) {
    const auto address = unsigned(__cvta_generic_to_shared(to));
    const int count = exists ? bytes : 0;
    if constexpr (bytes == kPackBytes)  // past the first cache, which has no use for it
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(count)
          : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address),
                   "l"(from),
                   "n"(bytes),
                   "r"(count)
                   : "memory");
  }
  __device__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
  template <int bytes>
  void start(void* to, const void* from, bool exists) {
    emulator::require_aligned(to, bytes, "cp.async to");
    emulator::require_aligned(from, bytes, "cp.async from");
    for (int i = 0; i < bytes / 4; ++i) static_cast<float*>(to)[i] = NAN;
    copies_[count_++] = {to, exists ? from : nullptr, bytes};
  }
  void wait() {
    for (int i = 0; i < count_; ++i) {
      const Copy& copy = copies_[i];
      if (copy.bytes == kPackBytes)
        finish<Pack<float> >(copy.to, copy.from);
      else
        finish<float>(copy.to, copy.from);
    }
    count_ = 0;
  }

 private:
  struct Copy {
    void* to;
    const void* from;  // null: zeros
    int bytes;
  };
  template <typename T>
  static void finish(void* to, const void* from) {
    *static_cast<T*>(to) = from != nullptr ? *static_cast<const T*>(from) : T{};
  }

  Copy copies_[16];  // more than a thread starts at a time
  int count_ = 0;
#endif
};

}  // namespace lockstep::cuda
