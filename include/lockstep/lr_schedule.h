// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// The learning rate over steps, for TrainOptions::lr_schedule:
///
///   {.kind = lockstep::LrSchedule::Kind::cosine, .warmup_steps = 500}
///
/// lr is the optimizer's rate. With warm-up W, decay length D (steps after warm-up until min_lr)
/// and t the step from 0:
///   t < W:    lr (t + 1) / W
///   constant: lr
///   linear:   lr + (min_lr - lr) p,                      p = min(1, (t - W) / D)
///   cosine:   min_lr + (lr - min_lr) (1 + cos(pi p)) / 2  (Loshchilov and Hutter 2017, equation 5)
///   step:     max(min_lr, lr * step_factor^floor((t - W) / step_every))
struct LrSchedule {
  enum class Kind : std::uint8_t { constant, linear, step, cosine };
  Kind kind = Kind::constant;
  std::int64_t warmup_steps = 0;
  /// Where warmup_steps is 0: they are this share of the run's steps, rounded down; over_run()
  /// fills them in.
  float warmup_ratio = 0;
  std::int64_t decay_steps = 0;  ///< 0: the rest of the run, as over_run() fills it in
  std::int64_t step_every = 0;   ///< step: 0 means a third of decay_steps
  float step_factor = 0.1f;
  float min_lr = 0.0f;
};

/// Every schedule with its name, in the order of the help. A new one is a kind, a line here, its
/// formula above and in lr_at(), and a case in tests/core/lr_schedule_test.cpp.
inline constexpr std::pair<std::string_view, LrSchedule::Kind> kLrSchedules[] = {
    {"constant", LrSchedule::Kind::constant},
    {"cosine", LrSchedule::Kind::cosine},
    {"step", LrSchedule::Kind::step},
    {"linear", LrSchedule::Kind::linear}};

/// "cosine"; the name of kLrSchedules.
std::string_view name_of(LrSchedule::Kind kind);

/// The rate for step `t` (from 0) of a schedule whose decay_steps is set.
float lr_at(const LrSchedule& schedule, float lr, std::int64_t t);

/// `schedule` with what depends on the length of a run of `steps` steps: warmup_steps of
/// warmup_ratio, and decay_steps.
LrSchedule over_run(LrSchedule schedule, std::int64_t steps);

/// Throws ConfigError naming the setting: negative lengths, a ratio outside [0, 1], min_lr above
/// lr, a factor outside (0, 1].
void validate(const LrSchedule& schedule, float lr);

std::string to_string(const LrSchedule& schedule);

}  // namespace lockstep
