// SPDX-License-Identifier: Apache-2.0
// Stands before the C library's malloc, for builds without sanitizers.
#include <cerrno>
#include <cstdlib>
#include <malloc.h>

#include "tests/fuzz/heap_count.h"

namespace lockstep::fuzz {
namespace {

constinit HeapCount count;

void* counted(void* memory) {
  if (memory != nullptr) count.add(malloc_usable_size(memory));
  return memory;
}

}  // namespace

void start_heap_meter() { count.start(); }
std::int64_t peak_heap_bytes() { return count.peak(); }

}  // namespace lockstep::fuzz

extern "C" {

// The GNU C library's own names of what is replaced here.
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);

void* malloc(std::size_t bytes) noexcept { return lockstep::fuzz::counted(__libc_malloc(bytes)); }

void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return lockstep::fuzz::counted(__libc_calloc(count, bytes));
}

void* realloc(void* memory, std::size_t bytes) noexcept {
  const std::size_t before = memory == nullptr ? 0 : malloc_usable_size(memory);
  void* moved = __libc_realloc(memory, bytes);
  if (moved != nullptr || bytes == 0) lockstep::fuzz::count.remove(before);
  return lockstep::fuzz::counted(moved);
}

void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return lockstep::fuzz::counted(__libc_memalign(alignment, bytes));
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

void free(void* memory) noexcept {
  if (memory != nullptr) lockstep::fuzz::count.remove(malloc_usable_size(memory));
  __libc_free(memory);
}

}  // extern "C"
