// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "parallel/comm/nccl/nccl_library.h"

namespace lockstep {

/// Communicators that are given up, each on a thread of its own.
///
/// Note [Aborts wait]. ncclCommAbort() has what the device waits for end at once. Then it waits
/// itself, also for communicators that do not block, until the communicator's kernels have ended
/// and no CUDA graph is left that captured a collective of it (NCCL 2.28, init.cc,
/// commDestroySync()). Such a graph may hold kernels of several communicators, of which one waits
/// for another's. So whoever may be the one to destroy the graph must not be kept waiting, nor one
/// abort by another.
///
/// What then still hangs is left to a detached thread. To join it could keep a rank forever
/// that has been reported to end, and nothing can end a thread inside a driver's call. It
/// is safe: the thread owns all that it touches, NCCL is never unloaded, and no other thread has
/// the communicator. It can hold up neither the exit nor its code, as an ErrorConsensus ends the
/// process by _exit() at most half a second after its report; and a driver takes back what an ended
/// process had on the device. A process that is to continue instead, as it outlives the death of
/// another rank, asks any_hangs().
class NcclAborts {
 public:
  NcclAborts();
  /// Waits until all have ended, some seconds at most: see the note for what hangs in one.
  ~NcclAborts();
  NcclAborts(const NcclAborts&) = delete;
  NcclAborts& operator=(const NcclAborts&) = delete;

  /// Begins to abort `comm`, which must not be used any more, and returns at once. Without memory
  /// for a thread nothing is aborted. `part`: where a split of `comm` that has not ended puts the
  /// part, which is aborted after it: the abort of `comm` ends that split, and NCCL touches the
  /// part in it. Until then it stays there.
  void start(const Nccl& nccl,
             ncclComm_t comm,
             std::shared_ptr<const ncclComm_t> part = {}) noexcept;

  /// Whether any object of this class has ended before its aborts had.
  static bool any_hangs() { return hangs_; }

 private:
  /// Owned by the threads as well, which may outlive this.
  struct UnderWay {
    std::mutex mutex;
    std::condition_variable changed;
    int count = 0;
  };
  std::shared_ptr<UnderWay> under_way_;
  static inline std::atomic<bool> hangs_ = false;
};

}  // namespace lockstep
