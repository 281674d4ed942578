// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/profile/device_tracer.h"

namespace lockstep::cuda {

/// Brings together what CUPTI tells apart: which call on the host (its correlation number) was made
/// under which mark, and what the device did for which call. They come in different buffers, in any
/// order. Memory is bounded: marks are kept of the last kCalls calls, and at most kMaxWaiting
/// activities wait for theirs, which is more than a buffer of 2 MiB has calls (64 bytes each) and
/// the device's next one activities. One thread at a time.
class ActivityJoin {
 public:
  static constexpr std::size_t kCalls = std::size_t{1} << 17;
  static constexpr std::size_t kMaxWaiting = std::size_t{1} << 16;

  explicit ActivityJoin(DeviceActivitySink& sink);

  /// Call number `call`, which is not 0, was made under `mark`.
  void mark(std::uint32_t call, std::uint64_t mark) { marks_[call % kCalls] = {call, mark}; }
  /// Hands `activity` on with its mark, now or once it is known; without one where too many came
  /// since. `name` has to stay valid.
  void take(std::uint32_t call, DeviceActivity activity);
  /// Hands on what has waited for marks that are known by now.
  void resolve();
  /// Hands on all that waits, without marks where none is known.
  void finish();

 private:
  struct Marked {
    std::uint32_t call = 0;
    std::uint64_t mark = 0;
  };
  using Waiting = std::pair<std::uint32_t, DeviceActivity>;
  bool hand_on(std::uint32_t call, DeviceActivity& activity);
  /// Hands the first `count` on as they are.
  void give_up(std::size_t count);

  DeviceActivitySink& sink_;
  std::vector<Marked> marks_;  // [kCalls], by call number: numbers ascend
  std::vector<Waiting> waiting_;
};

}  // namespace lockstep::cuda
