// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/gelu_kind.h"
#include "lockstep/ops/rotary_positions.h"

namespace lockstep::nn {

/// How a model of ImageNet begins: as for images of 224x224, or of 32x32.
enum class Stem : std::uint8_t { imagenet, cifar };

/// A model of the zoo by its name, and its sizes: {.name = "resnet18", .outputs = 100}.
struct ModelSpec {
  std::string name = "convnet";           ///< one of model_names()
  std::int64_t outputs = 10;              ///< classes, or regression targets
  std::vector<std::int64_t> hidden{128};  ///< mlp: widths of the hidden layers
  Stem stem = Stem::imagenet;             ///< cifar: for small images, where has_stem()
  float dropout =
      0.0f;  ///< before the last layer; mlp, vgg: after every hidden one; vit, gpt and
             ///< llama: of embeddings, attention weights and what enters the residual stream
  /// vit, convnext: the rate of the last block's branches, which rises from 0 in the first in equal
  /// steps
  float stochastic_depth = 0.0f;
  // gpt and llama
  int layers = 12;
  int heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;  ///< tokens that the model can look back on, itself included
  bool bias = true;             ///< gpt: of linear layers and layer norms
  bool tied_head = true;        ///< the head's weights are the token table
  ops::GeluKind gelu = ops::GeluKind::tanh;  ///< gpt
  // llama
  int kv_heads = 0;            ///< heads of keys and values, divides heads; 0: as many as heads
  std::int64_t mlp_width = 0;  ///< of the feed-forward layers; 0: usual_mlp_width()
  float norm_eps = 1e-5f;      ///< is added to the mean of the squares in norms
  ops::RotaryPositions rotary = {};
};

}  // namespace lockstep::nn
