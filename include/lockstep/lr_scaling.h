// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// How learning rates that are meant for one global batch become those of another one, for
/// TrainOptions::lr_scaling. Every rate of the run, those of warm-up, decay, min_lr and parameter
/// groups too, is multiplied by
///   linear:  global batch / reference batch          (Goyal et al. 2017, section 2.1)
///   sqrt:    its square root                         (Malladi et al. 2022, for Adam and RMSprop)
struct LrScaling {
  enum class Rule : std::uint8_t { linear, sqrt };
  std::int64_t reference_batch = 0;  ///< samples; 0: rates are taken as they are
  Rule rule = Rule::linear;

  bool on() const { return reference_batch > 0; }
};

inline constexpr std::pair<std::string_view, LrScaling::Rule> kLrScalingRules[] = {
    {"linear", LrScaling::Rule::linear}, {"sqrt", LrScaling::Rule::sqrt}};

/// "linear"; the name of kLrScalingRules.
std::string_view name_of(LrScaling::Rule rule);

/// What rates are multiplied by; 1 where it is off.
double lr_factor(const LrScaling& scaling, std::int64_t global_batch);

/// `lr` times lr_factor(), rounded once.
float scaled_lr(const LrScaling& scaling, std::int64_t global_batch, float lr);

/// Throws ConfigError: `reference_batch` negative, or a scaled `lr` that is not finite.
void validate(const LrScaling& scaling, float lr, std::int64_t global_batch);

/// "linear reference_batch=256", what ranks and checkpoints compare; "none" where it is off.
std::string to_string(const LrScaling& scaling);

}  // namespace lockstep
