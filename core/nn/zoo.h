// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/nn/builder.h"

namespace lockstep::nn {

enum class Stem : std::uint8_t { imagenet, cifar };

/// A model of the zoo by name.
struct ModelSpec {
  std::string name = "convnet";           ///< mlp, convnet, resnet20, resnet18
  std::int64_t outputs = 10;              ///< classes, or regression targets
  std::vector<std::int64_t> hidden{128};  ///< mlp: widths of the hidden layers
  Stem stem = Stem::imagenet;  ///< ResNets: cifar is a 3x3 stride-1 stem without max-pool
  float dropout = 0.0f;        ///< before the last layer; mlp: behind every hidden layer
};

/// The names that `ModelSpec::name` may have.
std::vector<std::string_view> model_names();

/// Throws ConfigError: unknown name (the nearest valid one is offered), sizes out of range.
///
/// mlp: flatten, then (linear, ReLU) per hidden layer, linear. Parameters "0.weight", "2.weight",
/// ...
///   as torch.nn.Sequential numbers them.
/// convnet: two stages conv 3x3 (32 and 64 channels, padding 1, no bias), batch norm, ReLU, 2x2 max
///   pool; flatten; linear.
/// resnet20: He et al. 2016, section 4.2 (CIFAR), shortcuts of 1x1 convolutions with batch norm.
/// resnet18: torchvision's.
ModelFunction make_model(const ModelSpec& spec);

}  // namespace lockstep::nn
