// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/step_spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace lockstep {
namespace {

/// Of a normal distribution, standard deviation over median absolute deviation.
constexpr double kNormalDeviation = 1.4826;

double median_in_place(std::span<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

void StepSpread::add(double seconds) {
  open_ += seconds;
  if (++open_steps_ < steps_a_block_) return;
  sums_[full_++] = open_;
  open_ = 0;
  open_steps_ = 0;
  if (full_ < kBlocks) return;
  full_ /= 2;
  for (std::size_t b = 0; b < full_; ++b) sums_[b] = sums_[2 * b] + sums_[2 * b + 1];
  steps_a_block_ *= 2;
}

double StepSpread::seconds() const {
  return std::accumulate(sums_.begin(), sums_.begin() + std::ptrdiff_t(full_), open_);
}

std::optional<double> StepSpread::relative_error() const {
  if (full_ < kMin) return std::nullopt;
  std::array<double, kBlocks> copy = sums_;
  const std::span<double> values = std::span(copy).first(full_);
  const double median = median_in_place(values);
  if (!(median > 0)) return std::nullopt;
  for (double& value : values) value = std::abs(value - median);
  return kNormalDeviation * median_in_place(values) / (median * std::sqrt(double(full_)));
}

}  // namespace lockstep
