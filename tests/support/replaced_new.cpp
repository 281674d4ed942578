// SPDX-License-Identifier: Apache-2.0
#include "tests/support/replaced_new.h"

#include <cstdlib>
#include <new>

namespace lockstep::testing {

std::atomic<AllocationHook> on_allocation{nullptr};
std::atomic<std::int64_t> live_blocks{0};

namespace {

thread_local bool inside_hook = false;

bool may_allocate(const void* caller) {
  const AllocationHook hook = on_allocation.load(std::memory_order_relaxed);
  if (hook == nullptr || inside_hook) return true;
  inside_hook = true;
  const bool allowed = hook(caller);
  inside_hook = false;
  return allowed;
}

void* allocate(std::size_t bytes, std::size_t alignment, const void* caller) {
  void* memory = nullptr;
  if (may_allocate(caller)) {
    memory = alignment <= alignof(std::max_align_t)
                 ? std::malloc(bytes)
                 : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  if (memory == nullptr) throw std::bad_alloc();
  live_blocks.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) live_blocks.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace
}  // namespace lockstep::testing

using lockstep::testing::allocate;
using lockstep::testing::release;

void* operator new(std::size_t bytes) { return allocate(bytes, 1, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 1, __builtin_return_address(0)); }
void* operator new(std::size_t bytes, std::align_val_t a) {
  return allocate(bytes, std::size_t(a), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t a) {
  return allocate(bytes, std::size_t(a), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
