// SPDX-License-Identifier: Apache-2.0
// Listens to the sanitizers' malloc.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/heap_count.h"

// As in clang's sanitizer/allocator_interface.h, which GCC has the functions of but not the file.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                              void (*on_free)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void* memory);
}

namespace lockstep::fuzz {
namespace {

constinit HeapCount count;

void on_malloc(const volatile void*, std::size_t bytes) { count.add(bytes); }
void on_free(const volatile void* memory) {
  if (memory != nullptr) count.remove(__sanitizer_get_allocated_size(memory));
}

}  // namespace

void start_heap_meter() {
  static const bool listening = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0;
  if (!listening) {
    std::fputs("the sanitizer takes no more hooks: memory cannot be measured\n", stderr);
    std::abort();
  }
  count.start();
}

std::int64_t peak_heap_bytes() { return count.peak(); }

}  // namespace lockstep::fuzz
