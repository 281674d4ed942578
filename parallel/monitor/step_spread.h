// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lockstep {

/// How well the mean time of a run's steps is known, from their own spread.
///
/// Batch means (Schmeiser 1982, "Batch size effects in the analysis of simulation output"): steps
/// are summed in B blocks of equally many consecutive ones, kBlocks / 2 <= B < kBlocks once the run
/// is long enough, so that steps that are slow together count as the one event that they are. Of
/// block means m_b,
///
///   error = 1.4826 median|m_b - median(m)| / (median(m) sqrt(B))
///
/// which for normal m_b estimates the standard error of the mean step time, relative to it. The
/// median absolute deviation leaves single hiccups and the warm-up out (Hampel 1974). The median of
/// B means has a standard error 1.25 times as large.
class StepSpread {
 public:
  static constexpr std::size_t kBlocks = 64;
  /// With fewer blocks nothing is known.
  static constexpr std::size_t kMin = 8;

  /// The next step took `seconds`. Allocates nothing.
  void add(double seconds);
  /// Relative standard error of the mean step time; nothing with fewer than kMin blocks.
  std::optional<double> relative_error() const;
  /// Of all steps together.
  double seconds() const;
  /// B and the steps in each.
  std::size_t blocks() const { return full_; }
  std::int64_t steps_a_block() const { return steps_a_block_; }

 private:
  std::array<double, kBlocks> sums_{};
  std::size_t full_ = 0;
  std::int64_t steps_a_block_ = 1, open_steps_ = 0;
  double open_ = 0;
};

}  // namespace lockstep
