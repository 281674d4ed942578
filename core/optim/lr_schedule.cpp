// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/check.h"

namespace lockstep {

std::string_view name_of(LrSchedule::Kind kind) {
  for (const auto& [name, named] : kLrSchedules)
    if (named == kind) return name;
  throw InternalError("a schedule without a name");
}

float lr_at(const LrSchedule& schedule, float lr, std::int64_t t) {
  if (t < schedule.warmup_steps)
    return float(double(lr) * double(t + 1) / double(schedule.warmup_steps));
  const double low = schedule.min_lr, high = lr;
  const double after = double(t - schedule.warmup_steps);
  const double decay = double(std::max<std::int64_t>(1, schedule.decay_steps));
  const double progress = std::min(1.0, after / decay);
  switch (schedule.kind) {
    case LrSchedule::Kind::constant:
      return lr;
    case LrSchedule::Kind::linear:
      return float(high + (low - high) * progress);
    case LrSchedule::Kind::cosine:
      return float(low + (high - low) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case LrSchedule::Kind::step: {
      const double every = schedule.step_every > 0 ? double(schedule.step_every)
                                                   : std::max(1.0, std::ceil(decay / 3.0));
      return float(std::max(low, high * std::pow(schedule.step_factor, std::floor(after / every))));
    }
  }
  throw InternalError("unknown schedule");
}

LrSchedule over_run(LrSchedule schedule, std::int64_t steps) {
  if (schedule.warmup_steps == 0)
    schedule.warmup_steps = std::int64_t(double(schedule.warmup_ratio) * double(steps));
  if (schedule.decay_steps == 0) schedule.decay_steps = steps - schedule.warmup_steps;
  return schedule;
}

void validate(const LrSchedule& s, float lr) {
  LOCKSTEP_CHECK(s.warmup_steps >= 0 && s.decay_steps >= 0 && s.step_every >= 0,
                 ConfigError,
                 "`warmup_steps`, `decay_steps` and `step_every` must not be negative");
  LOCKSTEP_CHECK(s.warmup_ratio >= 0.0f && s.warmup_ratio <= 1.0f,
                 ConfigError,
                 "`warmup_ratio` must be in [0, 1], got {}",
                 s.warmup_ratio);
  LOCKSTEP_CHECK(s.min_lr >= 0.0f && s.min_lr <= lr,
                 ConfigError,
                 "`min_lr` must be between 0 and `lr` {}, got {}",
                 lr,
                 s.min_lr);
  LOCKSTEP_CHECK(s.step_factor > 0.0f && s.step_factor <= 1.0f,
                 ConfigError,
                 "`step_factor` must be in (0, 1], got {}",
                 s.step_factor);
}

std::string to_string(const LrSchedule& s) {
  return fmt::format("{} warmup={} decay={} every={} factor={} min_lr={}",
                     name_of(s.kind),
                     s.warmup_steps,
                     s.decay_steps,
                     s.step_every,
                     s.step_factor,
                     s.min_lr);
}

}  // namespace lockstep
