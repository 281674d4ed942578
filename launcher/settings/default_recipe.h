// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "lockstep/optimizer.h"

namespace lockstep {

/// How a model is trained where no flag says otherwise.
struct DefaultRecipe {
  Optimizer optimizer;
  std::string_view lr_schedule = "constant", warmup_steps = "0";  ///< as those flags take them
  float clip_norm = 0;
};

/// The share of a run's steps that --warmup-steps auto stands for.
inline constexpr float kWarmupRatio = 0.05f;

/// Of the model `name` (nn::model_names()); that of convnet for a name that is none.
const DefaultRecipe& default_recipe(std::string_view name);

/// The model for data of `source_kind` (source_kind()) where no --model is given.
std::string_view default_model(std::string_view source_kind);

}  // namespace lockstep
