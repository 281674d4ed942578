// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace lockstep {

/// What a GPU's driver says of it while it works. All of it is said of the whole GPU, whichever
/// processes use it. Three of these are often taken for one another: time (busy), space
/// (memory_bytes) and traffic (bus_busy).
enum class GpuQuantity {
  busy,          ///< share of the time in which at least one kernel ran, however small
  bus_busy,      ///< share of the time in which device memory was read or written, however little
  memory_bytes,  ///< held, touched or not; without what the driver reserves for itself
  power_w,
  clock_mhz,  ///< of the multiprocessors
  memory_clock_mhz,
  temperature_c,
};
inline constexpr std::size_t kGpuQuantities = 7;

/// Why clocks are lower than the highest.
enum class ClockReason {
  power_limit,
  heat,
  power_supply,  ///< that asks for it
  slowdown,      ///< of heat or the power supply; the driver does not say which
  sync_boost,    ///< GPUs that are set to run alike: another one is slower
  application_clocks,
  display_clocks,
  idle,
};
inline constexpr std::size_t kClockReasons = 8;

/// A number for each GpuQuantity; NaN: not said.
class GpuValues {
 public:
  GpuValues() { values_.fill(std::numeric_limits<double>::quiet_NaN()); }
  double operator[](GpuQuantity quantity) const { return values_[std::size_t(quantity)]; }
  double& operator[](GpuQuantity quantity) { return values_[std::size_t(quantity)]; }

 private:
  std::array<double, kGpuQuantities> values_;
};

/// One look at a GPU. Shares are over the driver's own period, a sixth of a second to a second.
struct GpuSample {
  GpuValues values;
  std::optional<std::uint32_t> reasons;  ///< bit i: ClockReason(i); nothing: not said
};

/// Of one quantity, over samples.
struct GpuRange {
  std::int64_t samples = 0;  ///< that had it; 0: not said
  double sum = 0, least = 0, most = 0;

  double mean() const { return sum / double(samples); }
  void add(double value) {
    if (std::isnan(value)) return;
    least = samples == 0 ? value : std::min(least, value);
    most = samples == 0 ? value : std::max(most, value);
    sum += value;
    ++samples;
  }
};

/// How one rank's GPU was used from the first step of this process to the end. Texts come first:
/// ranks send each other the bytes after them, from `part` on.
struct GpuUse {
  char host[64] = {};
  char device[32] = {};        ///< its address on the PCI bus; may be empty
  char not_watched[320] = {};  ///< why there are no samples; empty: it was watched
  bool part = false;           ///< the rank has a MIG part: shares and memory are not said
  bool went_silent = false;    ///< the driver did not answer the last question
  std::int64_t samples = 0;
  std::array<GpuRange, kGpuQuantities> ranges = {};
  GpuValues limits;                 ///< memory in all, the power limit in force, the highest clocks
  std::int64_t reason_samples = 0;  ///< that said why clocks are low
  std::array<std::int64_t, kClockReasons> throttled = {};  ///< of those, with this ClockReason

  const GpuRange& operator[](GpuQuantity quantity) const { return ranges[std::size_t(quantity)]; }
  void add(const GpuSample& sample) {
    ++samples;
    for (std::size_t i = 0; i < kGpuQuantities; ++i) ranges[i].add(sample.values[GpuQuantity(i)]);
    if (!sample.reasons) return;
    ++reason_samples;
    for (std::size_t i = 0; i < kClockReasons; ++i) throttled[i] += (*sample.reasons >> i) & 1u;
  }
};

}  // namespace lockstep
