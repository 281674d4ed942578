// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Parameters with hyper-parameters of their own, for TrainOptions::groups, as PyTorch's parameter
/// groups:
///
///   options.groups = {{.pattern = "^fc", .lr = 0.1f}, {.pattern = "embed", .weight_decay = 0}};
///
/// A parameter belongs to the first group whose pattern is found in its name, or to none. What a
/// group does not set is the optimizer's. The schedule and TrainOptions::layer_decay scale a
/// group's rate by the same factors as the optimizer's; so LrSchedule::min_lr is scaled too.
struct ParameterGroup {
  std::string pattern;  ///< regular expression (ECMAScript), searched in names
  std::optional<float> lr = {};
  /// Takes the place of every rule about decay: of biases and norms and of TrainOptions::no_decay.
  std::optional<float> weight_decay = {};
};

/// "^fc: lr=0.1, weight-decay=0"; what --group takes, and ranks and checkpoints compare.
std::string to_string(const ParameterGroup& group);

}  // namespace lockstep
