// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::emulator {

/// Where a context that does not run continues.
struct Context {
  void* stack_pointer = nullptr;
  void* fake_stack = nullptr;  ///< AddressSanitizer's
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
};

/// The stacks on which the threads of a block run, each in turn, until they wait or end. Kept from
/// launch to launch, as their pages are touched.
class FiberStacks {
 public:
  FiberStacks();
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  /// A free stack, prepared so that the first switch to it calls `entry`, which never returns.
  Context* take(void (*entry)());
  void give_back(Context* context) { free_.push_back(context); }
  /// Every stack is free again, whatever ran on it.
  void give_back_all();

  const void* memory() const { return memory_; }
  static constexpr std::size_t bytes() { return kStacks * kStackBytes; }

 private:
  static constexpr std::size_t kStacks = 1024, kStackBytes = std::size_t{256} << 10;

  char* memory_;
  std::vector<Context> contexts_;
  std::vector<Context*> free_;
};

/// Goes on in `to`; returns when somebody switches back to `from`. `ends`: nobody ever will.
void switch_context(Context& from, Context& to, bool ends = false);
/// The first thing that `entry` of take() calls: `from` is the context it was switched to from.
void arrive(Context& from);

}  // namespace lockstep::emulator
