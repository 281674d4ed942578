// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// What a device reaches in large GEMMs and in streaming through memory, measured.
struct DevicePeaks {
  double fp32_flops = 0;  ///< a second
  double bf16_flops = 0;
  double bytes = 0;  ///< read and written a second, far beyond the caches
};

/// Where a GPU's time goes, by its own clock; parts do not overlap. Gaps between the kernels of a
/// phase, in which the GPU waits for the host to launch the next one, count as that phase.
enum class DevicePart : std::uint8_t {
  forward,    ///< with the copy of the micro-batch to the device
  backward,   ///< with adding up shards, and with what is exchanged meanwhile
  exchange,   ///< what of it backward did not hide
  optimizer,  ///< with clipping and running statistics
  idle        ///< between steps, and between a micro-batch's end and the next one's copy; without
              ///< validations, snapshots and hashes, which belong to no part
};
inline constexpr std::size_t kDeviceParts = std::size_t(DevicePart::idle) + 1;

/// "forward", ...: as in metrics.jsonl, where "_ms" follows.
std::string_view name_of(DevicePart part);

/// Seconds by part, or milliseconds in a StepRecord: of one step, or of several. Those of a step
/// add up to the time from the end of the step before to its own end.
struct DeviceTimes {
  std::array<double, kDeviceParts> parts{};

  double& operator[](DevicePart part) { return parts[std::size_t(part)]; }
  double operator[](DevicePart part) const { return parts[std::size_t(part)]; }
  double total() const;
  /// Of the total; 0 where there is none.
  double share(DevicePart part) const;
  /// Part by part.
  DeviceTimes& operator+=(const DeviceTimes& other);
};
DeviceTimes operator*(const DeviceTimes& times, double factor);

/// How much of training a device does by replaying CUDA graphs: launches of many kernels at once,
/// captured from earlier steps.
struct GraphUse {
  std::uint64_t graphs = 0;  ///< captured segments of steps
  std::int64_t replays = 0;  ///< of them
  std::string why_not;       ///< why nothing more is captured; empty: everything is that can be
};

}  // namespace lockstep
