// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lr_scaling.h"

#include <cmath>

#include "core/base/check.h"

namespace lockstep {

std::string_view name_of(LrScaling::Rule rule) {
  for (const auto& [name, named] : kLrScalingRules)
    if (named == rule) return name;
  throw InternalError("a rule of scaling without a name");
}

double lr_factor(const LrScaling& scaling, std::int64_t global_batch) {
  if (!scaling.on()) return 1;
  const double ratio = double(global_batch) / double(scaling.reference_batch);
  return scaling.rule == LrScaling::Rule::sqrt ? std::sqrt(ratio) : ratio;
}

float scaled_lr(const LrScaling& scaling, std::int64_t global_batch, float lr) {
  return scaling.on() ? float(double(lr) * lr_factor(scaling, global_batch)) : lr;
}

void validate(const LrScaling& scaling, float lr, std::int64_t global_batch) {
  LOCKSTEP_CHECK(scaling.reference_batch >= 0,
                 ConfigError,
                 "`lr_reference_batch` must not be negative, got {}",
                 scaling.reference_batch);
  LOCKSTEP_CHECK(std::isfinite(scaled_lr(scaling, global_batch, lr)),
                 ConfigError,
                 "`lr` {} times {:g}, by `lr_reference_batch` {}, is not finite",
                 lr,
                 lr_factor(scaling, global_batch),
                 scaling.reference_batch);
}

std::string to_string(const LrScaling& scaling) {
  if (!scaling.on()) return "none";
  return fmt::format("{} reference_batch={}", name_of(scaling.rule), scaling.reference_batch);
}

}  // namespace lockstep
