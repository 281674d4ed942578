// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// An exponential moving average of the weights, for TrainOptions::ema, as timm's ModelEma and
/// PyTorch's AveragedModel: of all parameters and of batch norm's running statistics, fp32, equal
/// to the weights at the start. After update t (from 0), elementwise:
///   average = average + (1 - d) (weight - average)
///   d = min(decay, (1 + t) / (10 + t)) with warm-up, decay without
/// It is evaluated in addition to the weights, saved in checkpoints as ema.safetensors under the
/// model's names, and changes nothing of the training.
struct Ema {
  float decay = 0;  ///< 0: no average
  bool warmup = true;
  /// The global batch that `decay` is meant for: for another one it is decay^(global batch /
  /// reference batch), so that the average spans as many samples (Busbridge et al. 2023, "How to
  /// Scale Your EMA", section 2.2). 0: `decay` is taken as it is.
  std::int64_t reference_batch = 0;

  bool on() const { return decay > 0; }
};

/// 1 - d of update `t`.
float ema_rate(const Ema& ema, std::int64_t global_batch, std::uint64_t t);

/// Throws ConfigError: `decay` outside [0, 1), `reference_batch` negative.
void validate(const Ema& ema);

/// "0.9999 warmup reference_batch=256", what ranks and checkpoints compare; "none" where it is off.
std::string to_string(const Ema& ema);

}  // namespace lockstep
