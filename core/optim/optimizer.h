// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace lockstep {

/// Stochastic gradient descent; the update is SgdUpdate's (core/exec/backend.h).
struct Sgd {
  float lr = 0.1f;
  float momentum = 0.0f;
  bool nesterov = false;
  float weight_decay = 0.0f;
};

/// Adam with decoupled weight decay; the update is AdamwUpdate's (core/exec/backend.h).
struct AdamW {
  float lr = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.01f;
};

using Optimizer = std::variant<Sgd, AdamW>;

/// Throws ConfigError naming the setting: rates negative or not finite, momentum or betas outside
/// [0, 1), Nesterov without momentum.
void validate(const Optimizer& optimizer);

float learning_rate(const Optimizer& optimizer);
float weight_decay(const Optimizer& optimizer);
/// fp32 arrays of the parameters' size that the optimizer keeps: 0, 1 or 2.
int state_arrays(const Optimizer& optimizer);
/// "sgd lr=0.1 momentum=0.9 weight_decay=0.0005"
std::string to_string(const Optimizer& optimizer);

}  // namespace lockstep
