// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace lockstep::report {

/// The numbers of metrics.jsonl, by their names there.
enum class Quantity : std::uint8_t {
  epoch,
  samples,
  loss,
  accuracy,
  lr,
  grad_norm,
  samples_per_s,
  step_ms,
  data_ms,
  copy_ms,
  forward_ms,
  backward_ms,
  comm_exposed_ms,
  optimizer_ms,
  device_wait_ms,
  logging_ms,
  checkpoint_ms,
  other_ms,
  loader_samples_per_s,
  gpu_busy,
  gpu_memory_bytes,
  gpu_bus_busy,
  gpu_power_w,
  gpu_clock_mhz,
  noise_scale,
  val_loss,
  val_accuracy,
  ema_val_loss,
  ema_val_accuracy,
  seconds,
  stall_ms,
  spike_step,
  mean,
  spread,
  first_left_out,
  last_left_out,
  lost_steps,
};
inline constexpr std::size_t kQuantities = std::size_t(Quantity::lost_steps) + 1;

/// "step_ms"
std::string_view name_of(Quantity quantity);

enum class LineKind : std::uint8_t { step, evaluation, checkpoint, skip, rollback, fault, other };

/// One line of metrics.jsonl.
struct MetricsLine {
  LineKind kind = LineKind::other;
  std::int64_t number = 0;  ///< in the file, from 1
  std::int64_t step = 0;
  std::array<double, kQuantities> values{};  ///< NaN: absent, null or no number
  std::string path;   ///< of a checkpoint, or of the one that a rollback went back to
  std::string error;  ///< of a checkpoint that did not become whole
  std::string cause;  ///< of a step that was skipped; the fault that a restart followed

  double operator[](Quantity quantity) const { return values[std::size_t(quantity)]; }
};

struct MetricsEnd {
  std::int64_t lines = 0;
  std::int64_t unknown_lines = 0;  ///< of a kind that this version does not know
  bool cut_off = false;            ///< the last line is not whole, and was skipped
};

/// Calls `take` for each line of `file`, in their order, in memory that does not grow with the
/// file. NaN and Infinity, which are not JSON, count as null. Lines of unknown kinds come as
/// LineKind::other. Throws DataError with file and line: not a regular file, a line that is not
/// JSON object (the last may be cut off), has no whole number as `step`, or is longer than 64 KiB,
/// and lines of a newer format.
MetricsEnd read_metrics(const std::string& file,
                        const std::function<void(const MetricsLine&)>& take);

/// The newest format of a run's files that this version reads; files say it as "format", and none
/// that was written so far does.
inline constexpr std::int64_t kFormat = 1;

}  // namespace lockstep::report
