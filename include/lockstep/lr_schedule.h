// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// The learning rate over steps, for TrainOptions::lr_schedule:
///
///   {.kind = lockstep::LrSchedule::Kind::cosine, .warmup_steps = 500}
///
/// lr is the optimizer's rate. With warm-up W, decay length D (steps after warm-up until min_lr),
/// t the step from 0 and p = min(1, (t - W) / D), the rate is lr (t + 1) / W in steps t < W, then
///   constant:      lr
///   linear:        lr + (min_lr - lr) p
///   cosine:        min_lr + (lr - min_lr) (1 + cos(pi p)) / 2  (Loshchilov and Hutter 2017, eq. 5)
///   polynomial:    min_lr + (lr - min_lr) (1 - p)^power          (PyTorch's PolynomialLR)
///   step:          max(min_lr, lr * step_factor^floor((t - W) / step_every))
///   multi-step:    max(min_lr, lr * step_factor^n), n milestones m <= t   (PyTorch's MultiStepLR)
///   wsd:           warm-up, stable, decay: lr until the last D steps of the run, in which
///                  lr + (min_lr - lr) sqrt(p'), p' = (t - (steps - D)) / D
///                  (Hu et al. 2024, "MiniCPM"; Hagele et al. 2024, section 3, for the root)
///   inverse-sqrt:  max(min_lr, lr * sqrt(max(1, W) / (t + 1)))  (Vaswani et al. 2017, eq. 3)
///   one-cycle:     PyTorch's OneCycleLR: during warm-up from lr / 25 to lr along a cosine, whose
///                  peak is step W - 1, then to min_lr along one (Smith and Topin 2017). Momentum
///                  stays as it is.
struct LrSchedule {
  enum class Kind : std::uint8_t {
    constant,
    linear,
    step,
    cosine,
    polynomial,
    multi_step,
    wsd,
    inverse_sqrt,
    one_cycle
  };
  Kind kind = Kind::constant;
  std::int64_t warmup_steps = 0;
  /// Where warmup_steps is 0: they are this share of the run's steps, rounded down; over_run()
  /// fills them in. one-cycle takes kOneCycleWarmup where both are 0.
  float warmup_ratio = 0;
  /// 0: the rest of the run, of wsd kWsdDecay of it, as over_run() fills it in.
  std::int64_t decay_steps = 0;
  std::int64_t step_every = 0;  ///< step: 0 means a third of decay_steps
  float step_factor = 0.1f;     ///< step, multi-step
  float min_lr = 0.0f;
  float power = 1.0f;                         ///< polynomial
  std::vector<std::int64_t> milestones = {};  ///< multi-step: rising
  std::int64_t stable_steps = 0;              ///< wsd: as over_run() fills it in
};

/// The share of a run that rises under one-cycle (PyTorch's pct_start), and that decays under wsd
/// (Hagele et al. 2024: 10% to 20%).
inline constexpr float kOneCycleWarmup = 0.3f, kWsdDecay = 0.2f;

/// Every schedule with its name, in the order of the help. A new one is a kind, a line here, its
/// formula above and in lr_at(), and a case in tests/core/lr_schedule_test.cpp.
inline constexpr std::pair<std::string_view, LrSchedule::Kind> kLrSchedules[] = {
    {"constant", LrSchedule::Kind::constant},
    {"cosine", LrSchedule::Kind::cosine},
    {"step", LrSchedule::Kind::step},
    {"linear", LrSchedule::Kind::linear},
    {"polynomial", LrSchedule::Kind::polynomial},
    {"multi-step", LrSchedule::Kind::multi_step},
    {"wsd", LrSchedule::Kind::wsd},
    {"inverse-sqrt", LrSchedule::Kind::inverse_sqrt},
    {"one-cycle", LrSchedule::Kind::one_cycle}};

/// "cosine"; the name of kLrSchedules.
std::string_view name_of(LrSchedule::Kind kind);

/// The rate for step `t` (from 0) of a schedule that over_run() returned.
float lr_at(const LrSchedule& schedule, float lr, std::int64_t t);

/// `schedule` with what depends on the length of a run of `steps` steps: warmup_steps of
/// warmup_ratio, decay_steps, stable_steps.
LrSchedule over_run(LrSchedule schedule, std::int64_t steps);

/// Whether the rate depends on how long the run is where decay_steps is not given.
bool follows_run_length(LrSchedule::Kind kind);

/// Throws ConfigError naming the setting: negative lengths, a ratio outside [0, 1], min_lr above
/// lr, a factor outside (0, 1], a power of 0 or less, multi-step without milestones or with some
/// that do not rise.
void validate(const LrSchedule& schedule, float lr);

std::string to_string(const LrSchedule& schedule);

}  // namespace lockstep
