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
  std::string name = "convnet";           ///< one of model_names()
  std::int64_t outputs = 10;              ///< classes, or regression targets
  std::vector<std::int64_t> hidden{128};  ///< mlp: widths of the hidden layers
  Stem stem = Stem::imagenet;             ///< cifar: for small images, where has_stem()
  float dropout = 0.0f;  ///< before the last layer; mlp, vgg: behind every hidden one; gpt: of
                         ///< embeddings, attention weights and what enters the residual stream
  // gpt
  int layers = 12;
  int heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;  ///< tokens that the model can look back on, itself included
  bool bias = true;             ///< of linear layers and layer norms
  bool tied_head = true;        ///< the head's weights are the token table
  ops::GeluKind gelu = ops::GeluKind::tanh;
};

/// The names that `ModelSpec::name` may have.
std::vector<std::string_view> model_names();

/// Whether `ModelSpec::stem` makes a difference to it.
bool has_stem(std::string_view model);

/// Throws ConfigError: unknown name (the nearest valid one is offered), sizes out of range.
///
/// mlp: flatten, then (linear, ReLU) per hidden layer, linear. Parameters "0.weight", "2.weight",
/// ...
///   as torch.nn.Sequential numbers them. Where the data have embedded columns, their vectors come
///   first: "embeddings.0.weight", ..., as a torch.nn.ModuleList of Embedding. The other models
///   refuse such data.
/// convnet: two stages conv 3x3 (32 and 64 channels, padding 1, no bias), batch norm, ReLU, 2x2 max
///   pool; flatten; linear.
/// resnet20: He et al. 2016, section 4.2 (CIFAR), shortcuts of 1x1 convolutions with batch norm.
/// resnet18, resnet34, resnet50, resnet101, resnet152: torchvision's ("v1.5"); cifar: a 3x3
///   stride-1 stem without max-pool.
/// vgg11, vgg16: torchvision's vgg11_bn and vgg16_bn, for images of 224x224 (torchvision trains
/// them
///   with dropout 0.5); cifar: one linear layer "classifier" on the average of the last features.
/// gpt: core/nn/gpt.h; "gpt2-124m" and its like are gpt with GPT-2's sizes.
ModelFunction make_model(const ModelSpec& spec);

}  // namespace lockstep::nn
