// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>
#include <vector>

#include "tests/support/cuda_emulator/access_record.h"
#include "tests/support/cuda_emulator/device_functions.h"
#include "tests/support/cuda_emulator/fiber.h"
#include "tests/support/cuda_emulator/launch.h"
#include "tests/support/cuda_emulator/status.h"

// Note [How the emulator works]
//
// kernels/cuda is compiled by the C++ compiler against the headers of this folder. A launch runs
// the blocks one after another and each block's threads as fibers on stacks of their own: a thread
// runs until it waits for others or ends; one that never waits costs a call. Barriers and warp
// operations are told apart by their place in the source.
//
// The kernels' files are also compiled with -fsanitize=thread, but without its library: the
// compiler then announces every access to memory by a call of __tsan_read4() and the like, which
// tsan_hooks.cpp answers. check_access() looks at those of a running kernel: that they stay within
// an allocation or the block's shared memory, are aligned, read no shared byte that was not
// written, and race with no other thread's: see Progress. Under AddressSanitizer, which excludes
// that instrumentation, bounds and alignment are its and UBSan's work, and races are not seen.
//
// Every launch is looked at as if it were a dependent one: Note [Dependent launches]. A thread that
// touches memory of the device before it has waited, waits twice, or ends without having waited, is
// found.
//
// The first thing found wrong ends the launch with an error status; cudaGetErrorString() tells
// which thread of which block did what. cuda::check() makes an exception of it that names the
// kernel.
namespace lockstep::emulator {

/// Runs one block after another; one object a process.
class BlockRun {
 public:
  BlockRun();
  /// All of block `index`. Throws Fault.
  void run(const Launch& launch, uint3 index);

  // For the thread that runs:
  int block_barrier(bool predicate, const Site& site);
  std::uint64_t warp_operation(
      WarpOperation operation, unsigned mask, std::uint64_t bits, int source, const Site& site);
  void wait_for_predecessors(const Site& site);
  void trigger_dependents(const Site& site);
  /// Whether it has called wait_for_predecessors().
  bool has_waited() const;
  /// Ends the whole launch with a Fault whose text is where this thread is, and `text`. Nothing on
  /// this thread's stack is destroyed: memory that a temporary of the call holds is lost.
  [[noreturn]] void fail(cudaError_t status, std::string text);

 private:
  enum class State : std::uint8_t { ready, at_barrier, in_warp_operation, ended };
  struct Thread {
    State state = State::ready;
    bool waited = false;         ///< for what came before the launch
    Context* context = nullptr;  ///< null before it starts and after it ended
    uint3 index;
    std::source_location site;
    WarpOperation operation;
    unsigned mask;
    std::uint64_t bits;  ///< brought to the warp operation, then its result
    int source;
  };

  static void enter();
  /// Runs thread `i` until it waits or ends.
  void resume(int i);
  /// Gives control back until another one resumes the running thread.
  void wait(State state, const Site& site);
  /// Runs the warp until each lane is at the block's barrier or has ended.
  void run_warp(int first, int last);
  /// Completes a warp operation that all of its lanes have reached. False: no lane waits for one.
  bool complete_warp_operation(int first, int last);
  /// A lane of the group's mask that is not where the group is, or -1.
  int missing_lane(int first, int last, const Thread& group) const;
  void exchange(int first, int last, unsigned mask);
  /// Lets threads leave the barrier that all wait at. False: all have ended.
  bool pass_barrier();
  std::string place_of(int thread) const;
  std::string state_of(int thread) const;

  FiberStacks stacks_;
  Context scheduler_;
  const Launch* launch_ = nullptr;
  std::vector<Thread> threads_;
  int barrier_count_ = 0, barrier_result_ = 0;
  bool finished_ = true;  ///< the last block came to its end
  bool failed_ = false;
  cudaError_t status_ = cudaSuccess;
  std::string text_;
};

BlockRun& block_run();

std::string text_of(uint3 index);

}  // namespace lockstep::emulator
