// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <string>

#include "parallel/comm/nccl/nccl_aborts.h"
#include "parallel/comm/nccl/nccl_library.h"

namespace lockstep {

/// What went wrong first among the NCCL communicators of a process: then none is to be used any
/// more, since the ranks no longer stand at the same collective. For several threads.
class NcclFailure {
 public:
  /// Keeps the first.
  void keep(const std::string& text);
  /// Another rank has died, which counts more than what NCCL has said before.
  void keep_death(const std::string& text);
  bool any() const { return any_.load(std::memory_order_acquire); }
  /// Throws CommError where there was one; of a death DeadRankError, which MpiSession knows of
  /// before, where this rank outlives it, as of a message that failed. What NCCL says first may
  /// come of a death that is known a little later, and waits for it. In the thread that calls MPI.
  void throw_if_any() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string text_;
  bool is_death_ = false;
  std::atomic<bool> any_{false};
};

/// What to do where ranks do not reach each other through NCCL.
const char* nccl_network_hint();

/// Calls that NCCL takes as one. Between its making and end() nothing may throw.
class NcclGroup {
 public:
  explicit NcclGroup(const Nccl& nccl) : nccl_(nccl), status_(nccl.ncclGroupStart()) {}
  void add(ncclResult_t status) {
    if (!failed(status_)) status_ = status;
  }
  /// The first status that is an error, else that of the group.
  ncclResult_t end() {
    const ncclResult_t ended = nccl_.ncclGroupEnd();
    return failed(status_) ? status_ : ended;
  }

 private:
  static bool failed(ncclResult_t status) {
    return status != ncclSuccess && status != ncclInProgress;
  }
  const Nccl& nccl_;
  ncclResult_t status_;
};

/// A rank's part in one NCCL communicator that does not block. NCCL takes one call at a time for
/// it, whose end is found by asking; all of them come through here. One thread works with it, and
/// another may look_aside().
class NcclLink {
 public:
  NcclLink(const Nccl& nccl, int rank, int size, NcclFailure& failure, NcclAborts& aborts)
      : nccl_(nccl), rank_(rank), size_(size), failure_(failure), aborts_(aborts) {}
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  /// Where an exception is in flight or something failed peers may be gone: gives up. Otherwise
  /// waits for what was asked for, some seconds at most.
  ~NcclLink();

  /// Joins the ranks that have the same `ids`, of which each is the address of a rank where some of
  /// them meet. Returns why that failed; empty: it did not.
  std::string join(std::span<ncclUniqueId> ids, double limit_s);
  /// All ranks of this one split it, and `part` (null: this rank has none) joins those that name
  /// the same `color`, in the order of its rank. Nothing that was asked for may be under way on the
  /// device, or NCCL may wait for ever. Returns as join(); then this one is given up as well, as
  /// NCCL ends a split by the abort of what it splits.
  std::string split(NcclLink* part, int color, double limit_s);

  /// Has calls(nccl, comm), which returns NCCL's status, ask for a collective. Returns once it
  /// is enqueued on its stream. Throws CommError, also where any communicator failed before.
  template <typename Calls>
  void run(const char* what, Calls calls) {
    std::unique_lock lock(mutex_);
    require_alive();
    resolve(lock, calls(nccl_, comm_), what);
  }

  /// Keeps an error that NCCL met since, and gives up where there was one here or elsewhere.
  void look();
  /// The same for another thread: where a call is under way, nothing, as its thread looks.
  void look_aside();
  /// Gives up: what the device waits for ends soon, and nothing may be asked for any more. Waits
  /// for nothing, as all that gives up here: see Note [Aborts wait].
  void abort();

 private:
  void look_locked();
  ncclResult_t async_status() const;
  ncclResult_t await(ncclResult_t status, std::chrono::steady_clock::time_point end) const;
  std::string describe_join(ncclResult_t status, double limit_s) const;
  std::string describe(ncclResult_t status, const char* what) const;
  void require_alive();
  void resolve(std::unique_lock<std::mutex>& lock, ncclResult_t status, const char* what);
  void fail(ncclResult_t status, const char* what);
  void give_up();
  void finish();

  const Nccl& nccl_;
  const int rank_, size_;
  NcclFailure& failure_;
  NcclAborts& aborts_;
  const int exceptions_ = std::uncaught_exceptions();
  std::mutex mutex_;           // of the calls to NCCL, and of what follows
  ncclComm_t comm_ = nullptr;  // null: not joined, or given up
};

}  // namespace lockstep
