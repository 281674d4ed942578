// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::io {

/// Threads that do jobs in any order, whose results the caller gets in the order of the jobs. With
/// one thread a job is done when it is given, by the caller.
///
/// `Job` has what is to be done, and holds the result.
template <typename Job>
class OrderedPool {
 public:
  using Work = std::function<void(Job&)>;

  /// One `work` for each thread, which it alone calls.
  explicit OrderedPool(std::vector<Work> work) : work_(std::move(work)) {
    if (work_.size() < 2) return;
    for (Work& each : work_) threads_.emplace_back([this, &each] { run(each); });
  }
  ~OrderedPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;

  /// Calls `take` for each job that is done and comes first, until there is a place for another.
  template <typename Take>
  void give(Job job, const Take& take) {
    if (threads_.empty()) {
      work_[0](job);
      take(job);
      return;
    }
    while (jobs_.size() >= 2 * threads_.size()) take_first(take);
    jobs_.push_back(std::make_unique<Entry>(Entry{.job = std::move(job)}));
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(jobs_.back().get());
    }
    changed_.notify_all();
  }
  template <typename Take>
  void finish(const Take& take) {
    while (!jobs_.empty()) take_first(take);
  }

 private:
  struct Entry {
    Job job;
    bool done = false;
    std::exception_ptr failed = {};
  };

  template <typename Take>
  void take_first(const Take& take) {
    Entry& first = *jobs_.front();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return first.done; });
    }
    if (first.failed) std::rethrow_exception(first.failed);
    take(first.job);
    jobs_.pop_front();
  }

  void run(Work& work) {
    for (;;) {
      Entry* entry = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        entry = waiting_.front();
        waiting_.pop_front();
      }
      try {
        work(entry->job);
      } catch (...) {
        entry->failed = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        entry->done = true;
      }
      changed_.notify_all();
    }
  }

  std::vector<Work> work_;
  std::deque<std::unique_ptr<Entry>> jobs_;  // of the caller's thread
  std::mutex mutex_;                         // guards what follows, and whether entries are done
  std::condition_variable changed_;
  std::deque<Entry*> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::io
