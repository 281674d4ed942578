// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/noise_scale.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"

namespace lockstep {
namespace {

/// "12% more steps", "7% fewer steps".
std::string change(double factor, const char* what) {
  const double percent = 100 * (factor - 1);
  return fmt::format("{:.0f}% {} {}", std::abs(percent), percent < 0 ? "fewer" : "more", what);
}

}  // namespace

void NoiseScale::add(const GradientNorms& norms) {
  LOCKSTEP_ASSERT(norms.squared_shares < 1 && norms.samples > 0);
  const double share = norms.squared_shares;
  const double squared_gradient = (norms.whole - norms.shards) / (1 - share);
  const double variance =
      double(norms.samples) * (norms.shards - share * norms.whole) / (1 - share);
  const double weight = 1.0 / double(std::min(++count_, kHorizon));
  squared_gradient_ += weight * (squared_gradient - squared_gradient_);
  variance_ += weight * (variance - variance_);
}

std::optional<double> NoiseScale::samples() const {
  if (count_ < kMin || !(squared_gradient_ > 0) || !(variance_ > 0)) return std::nullopt;
  return variance_ / squared_gradient_;
}

std::string format_noise_scale(double scale,
                               std::int64_t global_batch,
                               double lr,
                               double lr_grows) {
  const auto batch = double(global_batch);
  const auto steps = [&](double b) { return 1 + scale / b; };
  const auto samples = [&](double b) { return 1 + b / scale; };
  const double half = double(std::max<std::int64_t>(1, global_batch / 2)), twice = 2 * batch;
  return name_parameters(fmt::format(
      "about {:.0f} samples; to the same loss a global batch of {:.0f} would take {} and {} (`lr` "
      "{:.3g} by the usual rule), one of {:.0f} {} and {} (`lr` {:.3g})",
      scale,
      twice,
      change(steps(twice) / steps(batch), "steps"),
      change(samples(twice) / samples(batch), "samples"),
      lr * lr_grows,
      half,
      change(steps(half) / steps(batch), "steps"),
      change(samples(half) / samples(batch), "samples"),
      lr / lr_grows));
}

}  // namespace lockstep
