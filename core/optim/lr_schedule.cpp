// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <numbers>

#include "core/base/check.h"

namespace lockstep {

namespace {

// PyTorch's div_factor: the first rate of one-cycle is this part of the highest.
constexpr double kOneCycleStart = 25;

double along_cosine(double from, double to, double progress) {
  return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace

std::string_view name_of(LrSchedule::Kind kind) {
  for (const auto& [name, named] : kLrSchedules)
    if (named == kind) return name;
  throw InternalError("a schedule without a name");
}

float lr_at(const LrSchedule& schedule, float lr, std::int64_t t) {
  const double low = schedule.min_lr, high = lr;
  const double warmup = double(schedule.warmup_steps), after = double(t) - warmup;
  const double decay = double(std::max<std::int64_t>(1, schedule.decay_steps));
  if (schedule.kind == LrSchedule::Kind::one_cycle) {
    const double start = high / kOneCycleStart;
    if (after < -1) return float(along_cosine(start, high, double(t) / (warmup - 1)));
    return float(along_cosine(high, low, std::min(1.0, (after + 1) / decay)));
  }
  if (t < schedule.warmup_steps) return float(high * double(t + 1) / warmup);
  const double progress = std::min(1.0, after / decay);
  switch (schedule.kind) {
    case LrSchedule::Kind::constant:
      return lr;
    case LrSchedule::Kind::linear:
      return float(high + (low - high) * progress);
    case LrSchedule::Kind::cosine:
      return float(low + (high - low) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case LrSchedule::Kind::polynomial:
      return float(low + (high - low) * std::pow(1.0 - progress, double(schedule.power)));
    case LrSchedule::Kind::step: {
      const double every = schedule.step_every > 0 ? double(schedule.step_every)
                                                   : std::max(1.0, std::ceil(decay / 3.0));
      return float(std::max(low, high * std::pow(schedule.step_factor, std::floor(after / every))));
    }
    case LrSchedule::Kind::multi_step: {
      const auto passed = std::ranges::upper_bound(schedule.milestones, t);
      const auto drops = double(passed - schedule.milestones.begin());
      return float(std::max(low, high * std::pow(schedule.step_factor, drops)));
    }
    case LrSchedule::Kind::wsd: {
      const double decayed = std::max(0.0, after - double(schedule.stable_steps));
      return float(high + (low - high) * std::sqrt(std::min(1.0, decayed / decay)));
    }
    case LrSchedule::Kind::inverse_sqrt:
      return float(std::max(low, high * std::sqrt(std::max(1.0, warmup) / double(t + 1))));
    case LrSchedule::Kind::one_cycle:
      break;
  }
  throw InternalError("unknown schedule");
}

LrSchedule over_run(LrSchedule schedule, std::int64_t steps) {
  if (schedule.kind == LrSchedule::Kind::one_cycle && schedule.warmup_ratio == 0)
    schedule.warmup_ratio = kOneCycleWarmup;
  if (schedule.warmup_steps == 0)
    schedule.warmup_steps = std::int64_t(double(schedule.warmup_ratio) * double(steps));
  const std::int64_t rest = steps - schedule.warmup_steps;
  if (schedule.decay_steps == 0)
    schedule.decay_steps = schedule.kind == LrSchedule::Kind::wsd
                               ? std::int64_t(double(kWsdDecay) * double(steps))
                               : rest;
  if (schedule.kind == LrSchedule::Kind::wsd)
    schedule.stable_steps = std::max<std::int64_t>(0, rest - schedule.decay_steps);
  return schedule;
}

bool follows_run_length(LrSchedule::Kind kind) {
  return kind != LrSchedule::Kind::constant && kind != LrSchedule::Kind::multi_step &&
         kind != LrSchedule::Kind::inverse_sqrt;
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
  LOCKSTEP_CHECK(s.power > 0.0f && std::isfinite(s.power),
                 ConfigError,
                 "`lr_power` must be finite and above 0, got {}",
                 s.power);
  if (s.kind != LrSchedule::Kind::multi_step) return;
  LOCKSTEP_CHECK(
      !s.milestones.empty(),
      ConfigError,
      "`lr_schedule` multi-step needs `milestones`: the steps after which the rate drops");
  const auto falls = std::ranges::adjacent_find(s.milestones, std::ranges::greater_equal());
  LOCKSTEP_CHECK(s.milestones.front() > 0 && falls == s.milestones.end(),
                 ConfigError,
                 "`milestones` must rise from 1 on, got {}",
                 fmt::join(s.milestones, ","));
}

std::string to_string(const LrSchedule& s) {
  std::string text = fmt::format("{} warmup={} decay={} every={} factor={} min_lr={}",
                                 name_of(s.kind),
                                 s.warmup_steps,
                                 s.decay_steps,
                                 s.step_every,
                                 s.step_factor,
                                 s.min_lr);
  // Of other kinds the text stays what it was in the checkpoints of earlier versions.
  if (s.kind == LrSchedule::Kind::polynomial) text += fmt::format(" power={}", s.power);
  if (s.kind == LrSchedule::Kind::multi_step)
    text += fmt::format(" milestones={}", fmt::join(s.milestones, ","));
  if (s.kind == LrSchedule::Kind::wsd) text += fmt::format(" stable={}", s.stable_steps);
  return text;
}

}  // namespace lockstep
