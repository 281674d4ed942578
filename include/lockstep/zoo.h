// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// The names that `ModelSpec::name` may have.
std::vector<std::string_view> model_names();

/// Images of side x side pixels.
struct ImageShape {
  std::int64_t side = 224, channels = 3, classes = 1000;
  bool operator==(const ImageShape&) const = default;
};
/// Of the digits in data::glyphs() and MNIST.
inline constexpr ImageShape kDigits{28, 1, 10};

/// The images that `ModelSpec::name` is made for: what a plan assumes where there are no data. 224
/// pixels for a name that is none.
ImageShape usual_images(std::string_view model, Stem stem);

/// Whether it is gpt, llama or one of their presets, whose samples are tokens.
bool reads_tokens(std::string_view model);

/// Whether `ModelSpec::stem` makes a difference to it.
bool has_stem(std::string_view model);

/// A model of the zoo, to hand to a Trainer, Replica or Predictor:
///
///   auto model = lockstep::nn::make_model({.name = "convnet", .outputs = 10});
///
/// Parameters have the names and layouts that PyTorch's models have. Throws ConfigError: unknown
/// name (the nearest valid one is offered), sizes out of range.
///
/// mlp: flatten, then (linear, ReLU) per hidden layer, linear. Parameters "0.weight", "2.weight",
/// ...
///   as torch.nn.Sequential numbers them. Where the data have embedded columns, their vectors come
///   first: "embeddings.0.weight", ..., as a torch.nn.ModuleList of Embedding. The other models
///   refuse such data.
/// convnet: two stages conv 3x3 (32 and 64 channels, padding 1, no bias), batch norm, ReLU, 2x2 max
///   pool; flatten; linear.
/// resnet20: He et al. 2016, section 4.2 (CIFAR), shortcuts of 1x1 convolutions with batch norm.
/// airbench94: the network of Jordan 2024 (arXiv 2404.00498) with its code's names; its first layer
///   whitens patches of the training images: see Conv2dOptions::whitening.
/// resnet18, resnet34, resnet50, resnet101, resnet152: torchvision's ("v1.5"); cifar: a 3x3
///   stride-1 stem without max-pool.
/// vgg11, vgg16: torchvision's vgg11_bn and vgg16_bn, for images of 224x224 (torchvision trains
/// them
///   with dropout 0.5); cifar: one linear layer "classifier" on the average of the last features.
/// mobilenet-v2: torchvision's mobilenet_v2 (which it trains with dropout 0.2); cifar: stride 1 in
/// the first convolution and before the blocks of 24 channels.
/// convnext-tiny: torchvision's convnext_tiny (which it trains with stochastic depth 0.1); cifar: a
/// 2x2 stride-2 stem.
/// vit-ti16, vit-s16: DeiT's vision transformers (Touvron et al. 2021) with timm's names; vit-b16:
///   torchvision's vit_b_16; for images of 224x224, or others whose sides are multiples of 16;
///   cifar: patches of 4x4.
/// gpt: a decoder of transformer blocks as GPT-2 (Radford et al. 2019), with the parameter names of
///   Hugging Face's GPT2LMHeadModel; "gpt2-124m" and its like are gpt with GPT-2's sizes.
/// llama: a decoder as Llama (Touvron et al. 2023; RMSNorm, rotary positions, grouped-query
///   attention, SwiGLU), with the parameter names of Hugging Face's LlamaForCausalLM; smollm-135m,
///   smollm-360m and llama-3.2-1b are llama with those models' sizes.
ModelFunction make_model(const ModelSpec& spec);

}  // namespace lockstep::nn
