// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/base/check.h"
#include "parallel/comm/self_communicator.h"

namespace lockstep::testing {

/// What threads that are ranks have in common.
struct ThreadGroup {
  explicit ThreadGroup(int ranks) : shown(std::size_t(ranks)) {}

  /// Waits for all. Throws CommError where one has left.
  void meet() {
    std::unique_lock lock(mutex);
    const int now = meetings;
    if (++arrived == int(shown.size())) {
      arrived = 0;
      ++meetings;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return meetings != now || left; });
    if (meetings == now) throw CommError("a rank has left");
  }
  void leave() {
    const std::lock_guard lock(mutex);
    left = true;
    changed.notify_all();
    for (const auto& part : parts) part->leave();
  }

  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0, meetings = 0;
  bool left = false;
  std::vector<const void*> shown;  // of each rank
  std::vector<std::shared_ptr<ThreadGroup>> parts;
};

/// One of several threads. Collectives are complete when they return; those on blocks are not
/// implemented.
class ThreadRank final : public SelfCommunicator {
 public:
  ThreadRank(ThreadGroup& group, int rank, std::shared_ptr<ThreadGroup> owned = {})
      : group_(group), owned_(std::move(owned)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return int(group_.shown.size()); }
  void barrier() override { group_.meet(); }
  void broadcast(void* data, std::size_t bytes, int root) override {
    show(data, [&](std::span<const void* const> all) {
      if (rank_ != root && bytes > 0) std::memcpy(data, all[std::size_t(root)], bytes);
    });
  }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    all_gather_v(send, recv, std::vector<std::size_t>(group_.shown.size(), bytes));
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    show(send, [&](std::span<const void* const> all) {
      auto* to = static_cast<std::byte*>(recv);
      for (std::size_t r = 0; r < all.size(); to += bytes[r++])
        if (bytes[r] > 0) std::memcpy(to, all[r], bytes[r]);
    });
  }
  void all_reduce_max(std::span<std::uint64_t> values) override {
    const std::vector<std::uint64_t> own(values.begin(), values.end());
    show(own.data(), [&](std::span<const void* const> all) {
      for (const void* const other : all)
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = std::max(values[i], static_cast<const std::uint64_t*>(other)[i]);
    });
  }
  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    const std::vector<float> own(data, data + elems);
    std::fill_n(data, elems, 0.0f);
    show(own.data(), [&](std::span<const void* const> all) {
      for (const void* const other : all)
        for (std::int64_t i = 0; i < elems; ++i) data[i] += static_cast<const float*>(other)[i];
    });
    return SelfCommunicator::start_all_reduce(data, elems);
  }
  /// All of them, in their order.
  std::unique_ptr<Communicator> split(int color, int /*key*/) override {
    LOCKSTEP_ASSERT(color == 0);
    if (rank_ == 0) {
      const std::lock_guard lock(group_.mutex);
      group_.parts.push_back(std::make_shared<ThreadGroup>(size()));
    }
    group_.meet();
    const std::shared_ptr<ThreadGroup> part = group_.parts.back();
    group_.meet();
    return std::make_unique<ThreadRank>(*part, rank_, part);
  }

 private:
  template <typename Use>
  void show(const void* data, Use use) {
    group_.shown[std::size_t(rank_)] = data;
    group_.meet();
    use(std::span<const void* const>(group_.shown));
    group_.meet();
  }

  ThreadGroup& group_;
  std::shared_ptr<ThreadGroup> owned_;
  int rank_;
};

/// Calls `run` on each of `ranks` threads. Throws what the lowest rank has thrown that has.
inline void run_ranks(int ranks, const std::function<void(Communicator&)>& run) {
  ThreadGroup group(ranks);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      ThreadRank rank(group, r);
      try {
        run(rank);
      } catch (...) {
        errors[std::size_t(r)] = std::current_exception();
      }
      group.leave();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

/// What `compute` returns on each of `ranks` ranks.
template <typename Compute>
auto on_ranks(int ranks, Compute compute) {
  std::vector<decltype(compute(std::declval<Communicator&>()))> results(
      static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Communicator& rank) { results[std::size_t(rank.rank())] = compute(rank); });
  return results;
}

}  // namespace lockstep::testing
