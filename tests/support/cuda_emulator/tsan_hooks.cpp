// SPDX-License-Identifier: Apache-2.0
// What code compiled with -fsanitize=thread calls; see Note [How the emulator works].
#include "tests/support/cuda_emulator/access_check.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

using lockstep::emulator::Access;
using lockstep::emulator::progress;
using lockstep::emulator::watched;

inline void note(const volatile void* address, std::size_t bytes, Access access, bool aligned) {
  if (!watched || progress.on_a_stack(address)) return;
  watched = false;  // what the check itself touches
  lockstep::emulator::check_access(const_cast<const void*>(address), bytes, access, aligned);
  watched = true;
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

void __tsan_read_range(void* p, unsigned long bytes) {
  if (bytes > 0) note(p, bytes, Access::read, false);
}
void __tsan_write_range(void* p, unsigned long bytes) {
  if (bytes > 0) note(p, bytes, Access::write, false);
}

#define LOCKSTEP_ACCESS(bytes)                                                                 \
  void __tsan_read##bytes(void* p) { note(p, bytes, Access::read, true); }                     \
  void __tsan_write##bytes(void* p) { note(p, bytes, Access::write, true); }                   \
  void __tsan_volatile_read##bytes(void* p) { note(p, bytes, Access::read, true); }            \
  void __tsan_volatile_write##bytes(void* p) { note(p, bytes, Access::write, true); }          \
  void __tsan_unaligned_read##bytes(void* p) { note(p, bytes, Access::read, false); }          \
  void __tsan_unaligned_write##bytes(void* p) { note(p, bytes, Access::write, false); }        \
  void __tsan_unaligned_volatile_read##bytes(void* p) { note(p, bytes, Access::read, false); } \
  void __tsan_unaligned_volatile_write##bytes(void* p) { note(p, bytes, Access::write, false); }
LOCKSTEP_ACCESS(1)
LOCKSTEP_ACCESS(2)
LOCKSTEP_ACCESS(4)
LOCKSTEP_ACCESS(8)
LOCKSTEP_ACCESS(16)

void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

#define LOCKSTEP_FETCH(T, bits, operation)                             \
  T __tsan_atomic##bits##_fetch_##operation(volatile T* p, T v, int) { \
    note(p, sizeof(T), Access::atomic, true);                          \
    return __atomic_fetch_##operation(p, v, __ATOMIC_SEQ_CST);         \
  }
#define LOCKSTEP_COMPARE_EXCHANGE(T, bits, kind)                                            \
  int __tsan_atomic##bits##_compare_exchange_##kind(volatile T* p, T* c, T v, int, int) {   \
    note(p, sizeof(T), Access::atomic, true);                                               \
    return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define LOCKSTEP_ATOMICS(T, bits)                                                     \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                            \
    note(p, sizeof(T), Access::atomic_read, true);                                    \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                      \
  }                                                                                   \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) {                         \
    note(p, sizeof(T), Access::atomic, true);                                         \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                         \
  }                                                                                   \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                         \
    note(p, sizeof(T), Access::atomic, true);                                         \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                               \
  }                                                                                   \
  LOCKSTEP_FETCH(T, bits, add)                                                        \
  LOCKSTEP_FETCH(T, bits, sub)                                                        \
  LOCKSTEP_FETCH(T, bits, and)                                                        \
  LOCKSTEP_FETCH(T, bits, or)                                                         \
  LOCKSTEP_FETCH(T, bits, xor)                                                        \
  LOCKSTEP_FETCH(T, bits, nand)                                                       \
  LOCKSTEP_COMPARE_EXCHANGE(T, bits, strong)                                          \
  LOCKSTEP_COMPARE_EXCHANGE(T, bits, weak)                                            \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T c, T v, int, int) {   \
    note(p, sizeof(T), Access::atomic, true);                                         \
    __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return c;                                                                         \
  }
LOCKSTEP_ATOMICS(unsigned char, 8)
LOCKSTEP_ATOMICS(unsigned short, 16)
LOCKSTEP_ATOMICS(unsigned int, 32)
LOCKSTEP_ATOMICS(unsigned long, 64)

}  // extern "C"

#endif
