// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/fiber.h"

#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define LOCKSTEP_ASAN(call) call
#else
#define LOCKSTEP_ASAN(call)
#endif

// void lockstep_switch_stack(void** save, void* load): the registers that a call keeps go onto the
// stack, whose pointer goes to *save; `load` becomes the stack pointer, and its registers come
// back.
asm(R"(
  .text
  .globl lockstep_switch_stack
  .type lockstep_switch_stack, @function
lockstep_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size lockstep_switch_stack, .-lockstep_switch_stack
)");
extern "C" void lockstep_switch_stack(void** save, void* load);

namespace lockstep::emulator {
namespace {

constexpr std::size_t kSavedRegisters = 6;
constexpr std::size_t kGuardBytes = 4096;

}  // namespace

FiberStacks::FiberStacks() {
  void* memory = mmap(nullptr,
                      kStacks * kStackBytes,
                      PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1,
                      0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  contexts_.resize(kStacks);
  for (std::size_t i = 0; i < kStacks; ++i) {
    char* bottom = memory_ + i * kStackBytes;
    mprotect(bottom, kGuardBytes, PROT_NONE);  // what overflows its stack faults
    contexts_[i].stack = bottom + kGuardBytes;
    // Other depths, over half the stack, or all would share the same few sets of the caches.
    contexts_[i].stack_bytes = kStackBytes - kGuardBytes - i * 576 % (kStackBytes / 2);
  }
  give_back_all();
}

FiberStacks::~FiberStacks() { munmap(memory_, kStacks * kStackBytes); }

void FiberStacks::give_back_all() {
  free_.clear();
  for (std::size_t i = kStacks; i > 0; --i) {
    Context& context = contexts_[i - 1];
    // Frames that were left without a return.
    LOCKSTEP_ASAN(__asan_unpoison_memory_region(context.stack, context.stack_bytes));
    free_.push_back(&context);
  }
}

Context* FiberStacks::take(void (*entry)()) {
  Context* context = free_.back();
  free_.pop_back();
  char* top = const_cast<char*>(static_cast<const char*>(context->stack)) + context->stack_bytes;
  auto** words = reinterpret_cast<void**>(top) - 1;  // as after a call: 8 bytes off 16
  *words = nullptr;
  *--words = reinterpret_cast<void*>(entry);
  for (std::size_t i = 0; i < kSavedRegisters; ++i) *--words = nullptr;
  context->stack_pointer = words;
  context->fake_stack = nullptr;
  return context;
}

void switch_context(Context& from, Context& to, [[maybe_unused]] bool ends) {
  LOCKSTEP_ASAN(
      __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.stack, to.stack_bytes));
  lockstep_switch_stack(&from.stack_pointer, to.stack_pointer);
  LOCKSTEP_ASAN(__sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr));
}

void arrive([[maybe_unused]] Context& from) {
  LOCKSTEP_ASAN(__sanitizer_finish_switch_fiber(nullptr, &from.stack, &from.stack_bytes));
}

}  // namespace lockstep::emulator
