// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

namespace lockstep::io {

/// What this rank does for a save, in this order.
enum class SaveStage : std::uint8_t { waiting, writing, part_written, over };

/// How one save stands, between the thread that writes it and the one that trains.
class SaveProgress {
 public:
  // The writing thread.
  /// Throws EnvironmentError with the reason of end_waiting(), once that was called.
  void require_open() const;
  /// Sleeps; less where end_waiting() is called.
  void sleep(double seconds);
  void set(SaveStage stage);
  /// It has written so many bytes more.
  void add_bytes(std::uint64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }

  // The training thread.
  /// Waits until this rank has come to `stage`, for `seconds` at most. Whether it has.
  bool wait_for(SaveStage stage, double seconds);
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// The save will not become whole, of which `reason` tells: this rank waits for no other any
  /// more, and writes no more tensors. The first reason stays.
  void end_waiting(std::string reason, std::string hint = {});

 private:
  std::atomic<std::uint64_t> bytes_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  SaveStage stage_ = SaveStage::waiting;
  bool ended_ = false;
  std::string reason_, hint_;
};

}  // namespace lockstep::io
