// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train_options.h"

#include <cmath>
#include <utility>

#include "core/base/check.h"

namespace lockstep {
namespace {

/// More than any run takes, and far from overflow in products with batch sizes.
constexpr double kMaxLength = 1e12;

void check_length(const TrainOptions& o) {
  LOCKSTEP_CHECK((o.epochs != 0) + (o.steps != 0) + (o.samples != 0) == 1,
                 ConfigError,
                 "give one of `epochs`, `steps` and `samples`");
  LOCKSTEP_CHECK(o.epochs >= 0 && o.epochs <= kMaxLength && o.steps >= 0 &&
                     double(o.steps) <= kMaxLength && o.samples >= 0,
                 ConfigError,
                 "`epochs` {}, `steps` {} or `samples` {} is below 0 or beyond {:g}",
                 o.epochs,
                 o.steps,
                 o.samples,
                 kMaxLength);
}

void check_clipping(const TrainOptions& o) {
  const std::pair<const char*, float> settings[] = {
      {"clip_norm", o.clip_norm}, {"clip_value", o.clip_value}, {"clip_agc", o.clip_agc}};
  const std::pair<const char*, float>* first = nullptr;
  for (const auto& setting : settings) {
    const auto& [name, value] = setting;
    LOCKSTEP_CHECK(std::isfinite(value) && value >= 0.0f,
                   ConfigError,
                   "`{}` must be finite and not negative, got {}",
                   name,
                   value);
    if (value == 0) continue;
    LOCKSTEP_CHECK(first == nullptr,
                   ConfigError,
                   "`{}` {} cannot be combined with `{}` {}: give one of them",
                   name,
                   value,
                   first->first,
                   first->second);
    first = &setting;
  }
}

}  // namespace

std::string_view name_of(Sharding sharding) {
  switch (sharding) {
    case Sharding::none:
      return "none";
    case Sharding::optimizer:
      return "optimizer";
    case Sharding::gradients:
      return "gradients";
  }
  throw InternalError("unknown sharding");
}

void validate(const TrainOptions& o) {
  check_length(o);
  validate(o.optimizer);
  validate(o.lr_schedule, learning_rate(o.optimizer));
  validate(o.lr_scaling, learning_rate(o.optimizer), o.global_batch);
  validate(o.ema);
  check_clipping(o);
  LOCKSTEP_CHECK(o.sharding == Sharding::none || o.reduction == Reduction::reproducible,
                 ConfigError,
                 "`shard` {}: needs `reduction` reproducible, which sums gradients at the "
                 "rank that updates them",
                 name_of(o.sharding));
  LOCKSTEP_CHECK(o.bucket_mb >= 0 && o.bucket_mb <= 8192,
                 ConfigError,
                 "`bucket_mb` must be 0 (auto) to 8192, got {}",
                 o.bucket_mb);
  LOCKSTEP_CHECK(o.check_replicas_every >= 0,
                 ConfigError,
                 "`check_replicas_every` must not be negative, got {}",
                 o.check_replicas_every);
  LOCKSTEP_CHECK(o.noise_scale_every >= 0,
                 ConfigError,
                 "`noise_scale_every` must not be negative, got {}",
                 o.noise_scale_every);
  LOCKSTEP_CHECK(o.log_every >= 0 && o.eval_every >= -1,
                 ConfigError,
                 "`log_every` {} or `eval_every` {} is negative",
                 o.log_every,
                 o.eval_every);
  LOCKSTEP_CHECK(
      o.early_stop >= 0, ConfigError, "`early_stop` must not be negative, got {}", o.early_stop);
  LOCKSTEP_CHECK(o.repeated_augmentation >= 1 && o.global_batch % o.repeated_augmentation == 0,
                 ConfigError,
                 "`repeated_augmentation` {}: expected a number that divides `global_batch` {}, so "
                 "that all copies of a sample are in one batch",
                 o.repeated_augmentation,
                 o.global_batch);
  const Distillation& distillation = o.distillation;
  LOCKSTEP_CHECK(!distillation.on() ||
                     (distillation.alpha > 0 && distillation.alpha <= 1 &&
                      distillation.temperature > 0 && std::isfinite(distillation.temperature)),
                 ConfigError,
                 "`teacher`: expected a `distillation_alpha` above 0 and at most 1 and a "
                 "`distillation_temperature` above 0, got {} and {}",
                 distillation.alpha,
                 distillation.temperature);
  LOCKSTEP_CHECK(!distillation.on() || o.first_image_size == 0,
                 ConfigError,
                 "`teacher` cannot be combined with an `image_size` that grows from {}: a teacher "
                 "is of one size",
                 o.first_image_size);
  LOCKSTEP_CHECK(o.first_image_size >= 0,
                 ConfigError,
                 "`image_size`: the first size, {}, is negative",
                 o.first_image_size);
  LOCKSTEP_CHECK(o.early_stop == 0 || o.eval_every != 0,
                 ConfigError,
                 "`early_stop` {} counts validations, and `eval_every` 0 makes none",
                 o.early_stop);
  LOCKSTEP_CHECK(
      o.on_spike == OnSpike::ignore || o.checkpoint.every_steps > 0,
      ConfigError,
      "`on_spike` rollback: goes back to checkpoints that are saved every so many steps, "
      "and checkpoint.every_steps is {}",
      o.checkpoint.every_steps);
}

}  // namespace lockstep
