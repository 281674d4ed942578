// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// What the training thread of a rank did with its time; no two overlap.
enum class TimePart : std::uint8_t {
  data,         ///< waited for samples, or loaded them itself
  copy,         ///< checked them and handed them to the device
  forward,      ///< on a GPU: until the work was handed over, as backward and optimizer
  backward,     ///< with adding up shards and moving exchanges along, which on GPUs waits for them
  exchange,     ///< waited for the gradients of other ranks: the exposed communication
  optimizer,    ///< with clipping and running statistics
  device_wait,  ///< waited for the device; never on the CPU, which works at once
  logging,      ///< reporting steps, validations and faults to observers: console, files, boards
  checkpoint,   ///< stalled for a snapshot, or for the write before it
  other         ///< what is left: agreement of ranks, comparing replicas, the loop itself
};
inline constexpr std::size_t kTimeParts = std::size_t(TimePart::other) + 1;

/// "data", "copy", ..., "comm_exposed", ...: as in metrics.jsonl, where "_ms" follows.
std::string_view name_of(TimePart part);

/// Where time went: seconds by part, or milliseconds a step in a StepRecord. `total` is measured by
/// itself; `other` is what the other parts leave of it, so that all of them add up to it.
struct TimeBreakdown {
  double total = 0;
  std::array<double, kTimeParts> parts{};

  double& operator[](TimePart part) { return parts[std::size_t(part)]; }
  double operator[](TimePart part) const { return parts[std::size_t(part)]; }
  /// Of the total; 0 where there is none.
  double share(TimePart part) const;
  /// Fills `other`.
  void close();
};
/// Part by part, the total as well.
TimeBreakdown operator-(const TimeBreakdown& later, const TimeBreakdown& earlier);
TimeBreakdown operator*(const TimeBreakdown& breakdown, double factor);

/// A rank's training time in this process, in seconds.
struct RankTimeBreakdown {
  int rank = 0;
  std::string host;
  TimeBreakdown breakdown;
  /// In which the training thread was ready to run while other threads had its cores, whatever part
  /// it was in; nothing: unknown.
  std::optional<double> queued = {};
};
}  // namespace lockstep
