// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <new>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/check.h"
#include "parallel/comm/self_communicator.h"

namespace lockstep::testing {

/// What forked processes have in common.
struct SharedMemory {
  static constexpr std::size_t kBytes = 1 << 16;
  std::atomic<int> arrived{0}, round{0};
  std::atomic<int> flags[16] = {};
  std::byte data[kBytes];
};

/// The ranks of a forked job: what a watchdog needs to begin, without MPI.
class ForkedCommunicator final : public SelfCommunicator {
 public:
  ForkedCommunicator(SharedMemory& memory, int rank, int size)
      : memory_(memory), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override {
    const int round = memory_.round;
    if (++memory_.arrived == size_) {
      memory_.arrived = 0;
      ++memory_.round;
    }
    while (memory_.round == round) std::this_thread::yield();
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    LOCKSTEP_ASSERT(bytes <= SharedMemory::kBytes);
    if (rank_ == root) std::memcpy(memory_.data, data, bytes);
    barrier();
    std::memcpy(data, memory_.data, bytes);
    barrier();
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    std::size_t before = 0, all = 0;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) before = all;
      all += bytes[std::size_t(r)];
    }
    LOCKSTEP_ASSERT(all <= SharedMemory::kBytes);
    if (bytes[std::size_t(rank_)] > 0)
      std::memcpy(memory_.data + before, send, bytes[std::size_t(rank_)]);
    barrier();
    if (all > 0) std::memcpy(recv, memory_.data, all);
    barrier();
  }
  void all_reduce_max(std::span<std::uint64_t> values) override {
    std::vector<std::uint64_t> all(values.size() * std::size_t(size_));
    all_gather(values.data(), all.data(), values.size_bytes());
    for (std::size_t i = 0; i < all.size(); ++i)
      values[i % values.size()] = std::max(values[i % values.size()], all[i]);
  }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    const auto ranks = std::size_t(size_);
    LOCKSTEP_ASSERT(bytes * ranks <= SharedMemory::kBytes);
    std::memcpy(memory_.data + bytes * std::size_t(rank_), send, bytes);
    barrier();
    std::memcpy(recv, memory_.data, bytes * ranks);
    barrier();
  }

 private:
  SharedMemory& memory_;
  int rank_, size_;
};

/// How a rank ended: its exit code, or 1000 + the signal; -1: it had to be killed.
using Endings = std::vector<int>;

/// Runs `body(communicator)` in `ranks` processes. What it returns is their exit code.
class ForkedRanks {
 public:
  using Body = std::function<int(ForkedCommunicator&, SharedMemory&)>;

  ForkedRanks(int ranks, const Body& body)
      : memory_(new (mmap(nullptr,
                          sizeof(SharedMemory),
                          PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS,
                          -1,
                          0)) SharedMemory) {
    for (int r = 0; r < ranks; ++r) {
      const pid_t child = fork();
      if (child == 0) {
        ForkedCommunicator communicator(*memory_, r, ranks);
        int code = 99;
        try {
          code = body(communicator, *memory_);
        } catch (const std::exception& error) {
          std::fprintf(stderr, "[rank %d] %s\n", r, error.what());
        }
        _exit(code);
      }
      children_.push_back(child);
    }
  }
  ~ForkedRanks() {
    for (const pid_t child : children_)
      if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
      }
    munmap(memory_, sizeof(SharedMemory));
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  SharedMemory& memory() { return *memory_; }
  pid_t process(int rank) const { return children_[std::size_t(rank)]; }
  void signal(int rank, int number) { kill(children_[std::size_t(rank)], number); }

  /// Waits for all but `but`.
  Endings wait(double seconds, int but = -1) {
    Endings endings(children_.size(), -1);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (bool all = false; !all && std::chrono::steady_clock::now() < give_up;) {
      all = true;
      for (std::size_t r = 0; r < children_.size(); ++r) {
        if (children_[r] == 0 || int(r) == but) continue;
        int status = 0;
        if (waitpid(children_[r], &status, WNOHANG) == children_[r]) {
          endings[r] = WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
          children_[r] = 0;
        } else {
          all = false;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return endings;
  }

  /// Until `count` ranks have raised `flag`.
  void await(int flag, int count) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (memory_->flags[flag] < count && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_GE(memory_->flags[flag], count);
  }

 private:
  SharedMemory* memory_;
  std::vector<pid_t> children_;
};

}  // namespace lockstep::testing
