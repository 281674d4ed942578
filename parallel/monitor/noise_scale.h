// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// What one step says of the noise in its gradients.
struct GradientNorms {
  /// Squared norm of the mean gradient over the global batch, before clipping.
  double whole = 0;
  /// Sum over its shards of the squared norm of (sum over the shard's samples / samples of the
  /// step).
  double shards = 0;
  /// Sum over its shards of (share of the step's samples)^2.
  double squared_shares = 0;
  std::int64_t samples = 0;  ///< of the step
};

/// The simple noise scale B = tr(S) / |G|^2 (McCandlish et al. 2018, "An Empirical Model of
/// Large-Batch Training", equation 2.9): G is the true gradient and S the covariance of one
/// sample's. Up to B samples a larger global batch saves steps in proportion; far above, it saves
/// none.
///
/// With shards of n_s samples of N, c = sum (n_s / N)^2 and the norms of GradientNorms,
///   E[whole]  = |G|^2     + tr(S) / N        E[shards] = c |G|^2 + tr(S) / N
///   |G|^2 ~ (whole - shards) / (1 - c)       tr(S) ~ N (shards - c whole) / (1 - c)
/// which for equal shards are the unbiased estimates of the paper's appendix A.1. Both are smoothed
/// before they are divided, as there: their means over the first kHorizon measurements, and then
/// exponential ones. Gradients clipped or not, what is measured is before clipping. Where batch
/// norm couples the samples of a micro-batch, a sample's gradient is that within its micro-batch.
/// It has no place in checkpoints: a resumed run begins to measure anew.
class NoiseScale {
 public:
  static constexpr std::int64_t kHorizon = 50;
  /// Before so many measurements nothing is said.
  static constexpr std::int64_t kMin = 5;

  void add(const GradientNorms& norms);

  std::int64_t measurements() const { return count_; }
  double squared_gradient() const { return squared_gradient_; }  ///< |G|^2, smoothed
  double variance() const { return variance_; }                  ///< tr(S), smoothed
  /// In samples. Nothing: too few measurements, the gradient is lost in the noise, or there is no
  /// noise at all.
  std::optional<double> samples() const;

 private:
  double squared_gradient_ = 0, variance_ = 0;
  std::int64_t count_ = 0;
};

/// "about 1200 samples; to the same loss a global batch of 512 would take 31% fewer steps and ...":
/// what a larger and a smaller global batch would cost, by the paper's equation 2.11: with steps S
/// and samples E that a batch of B needs to the same loss, S = S_min (1 + scale / B) and E = E_min
/// (1 + B / scale). `lr_grows`: the rate that goes with twice the batch: 2 (linear, Goyal et al.
/// 2017) for SGD, sqrt(2) for Adam (Malladi et al. 2022).
std::string format_noise_scale(double scale, std::int64_t global_batch, double lr, double lr_grows);

}  // namespace lockstep
