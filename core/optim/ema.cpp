// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ema.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace lockstep {

float ema_rate(const Ema& ema, std::int64_t global_batch, std::uint64_t t) {
  double decay = ema.decay;
  if (ema.reference_batch > 0)
    decay = std::pow(decay, double(global_batch) / double(ema.reference_batch));
  if (ema.warmup) decay = std::min(decay, (1.0 + double(t)) / (10.0 + double(t)));
  return float(1.0 - decay);
}

void validate(const Ema& ema) {
  LOCKSTEP_CHECK(ema.decay >= 0.0f && ema.decay < 1.0f,
                 ConfigError,
                 "`ema` must be in [0, 1), got {}",
                 ema.decay);
  LOCKSTEP_CHECK(ema.reference_batch >= 0,
                 ConfigError,
                 "`ema_reference_batch` must not be negative, got {}",
                 ema.reference_batch);
}

std::string to_string(const Ema& ema) {
  if (!ema.on()) return "none";
  std::string text = fmt::format("{}", ema.decay);
  if (ema.warmup) text += " warmup";
  if (ema.reference_batch > 0) text += fmt::format(" reference_batch={}", ema.reference_batch);
  return text;
}

}  // namespace lockstep
