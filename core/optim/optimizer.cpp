// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

#include <cmath>

#include "core/base/error.h"

namespace lockstep {
namespace {

void expect_not_negative(const char* name, float value) {
  LOCKSTEP_CHECK(std::isfinite(value) && value >= 0.0f,
                 ConfigError,
                 "optimizer: {} must be finite and not negative, got {}",
                 name,
                 value);
}

void expect_share(const char* name, float value) {
  LOCKSTEP_CHECK(value >= 0.0f && value < 1.0f,
                 ConfigError,
                 "optimizer: {} must be in [0, 1), got {}",
                 name,
                 value);
}

}  // namespace

void validate(const Optimizer& optimizer) {
  expect_not_negative("lr", learning_rate(optimizer));
  expect_not_negative("weight-decay", weight_decay(optimizer));
  if (const auto* sgd = std::get_if<Sgd>(&optimizer)) {
    expect_share("momentum", sgd->momentum);
    LOCKSTEP_CHECK(!sgd->nesterov || sgd->momentum > 0.0f,
                   ConfigError,
                   "optimizer: nesterov needs a momentum above 0");
  } else {
    const auto& adamw = std::get<AdamW>(optimizer);
    expect_share("beta1", adamw.beta1);
    expect_share("beta2", adamw.beta2);
    LOCKSTEP_CHECK(std::isfinite(adamw.eps) && adamw.eps > 0.0f,
                   ConfigError,
                   "optimizer: eps must be above 0, got {}",
                   adamw.eps);
  }
}

float learning_rate(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return o.lr; }, optimizer);
}

float weight_decay(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return o.weight_decay; }, optimizer);
}

int state_arrays(const Optimizer& optimizer) {
  if (const auto* sgd = std::get_if<Sgd>(&optimizer)) return sgd->momentum > 0.0f ? 1 : 0;
  return 2;
}

std::string to_string(const Optimizer& optimizer) {
  if (const auto* sgd = std::get_if<Sgd>(&optimizer))
    return fmt::format("sgd lr={} momentum={}{} weight_decay={}",
                       sgd->lr,
                       sgd->momentum,
                       sgd->nesterov ? " nesterov" : "",
                       sgd->weight_decay);
  const auto& a = std::get<AdamW>(optimizer);
  return fmt::format("adamw lr={} beta1={} beta2={} eps={} weight_decay={}",
                     a.lr,
                     a.beta1,
                     a.beta2,
                     a.eps,
                     a.weight_decay);
}

}  // namespace lockstep
