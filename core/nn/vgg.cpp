// SPDX-License-Identifier: Apache-2.0
#include "core/nn/vgg.h"

#include <array>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::nn {
namespace {

/// Layers are numbered as in torch.nn.Sequential: convolution, batch norm, ReLU; pooling.
Value features(Builder& nn, Value x, std::array<int, 5> convolutions) {
  constexpr std::array<std::int64_t, 5> kChannels{64, 128, 256, 512, 512};
  const auto scope = nn.scope("features");
  int index = 0;
  for (std::size_t stage = 0; stage < kChannels.size(); ++stage) {
    for (int i = 0; i < convolutions[stage]; ++i) {
      x = nn.conv2d(x,
                    {.out_channels = kChannels[stage],
                     .kernel = 3,
                     .padding = 1,
                     .he_normal_init = true,
                     .name = std::to_string(index)});
      x = nn.relu(nn.batch_norm(x, {.name = std::to_string(index + 1)}));
      index += 3;
    }
    x = nn.max_pool2d(x, {.kernel = 2});
    ++index;
  }
  return x;
}

/// Three linear layers; torchvision has dropout after the first two.
Value imagenet_head(const ModelSpec& spec, Builder& nn, Value x) {
  if (x.shape()[1] != 7 || x.shape()[2] != 7)
    throw ShapeError(fmt::format("{}: its head expects features of 7x7, as images of 224x224 give; "
                                 "got {}",
                                 spec.name,
                                 x.type().to_string()),
                     "`stem` cifar has a head for images of any size");
  x = nn.flatten(x);
  const auto scope = nn.scope("classifier");
  for (const char* name : {"0", "3"}) {
    x = nn.relu(nn.linear(x, {.out_features = 4096, .normal_init = 0.01f, .name = name}));
    x = nn.dropout(x, spec.dropout);
  }
  return nn.linear(x, {.out_features = spec.outputs, .normal_init = 0.01f, .name = "6"});
}

Value cifar_head(const ModelSpec& spec, Builder& nn, Value x) {
  x = nn.dropout(nn.global_avg_pool(x), spec.dropout);
  return nn.linear(x, {.out_features = spec.outputs, .normal_init = 0.01f, .name = "classifier"});
}

Value vgg(const ModelSpec& spec, Builder& nn, Value x, std::array<int, 5> convolutions) {
  x = features(nn, x, convolutions);
  return spec.stem == Stem::cifar ? cifar_head(spec, nn, x) : imagenet_head(spec, nn, x);
}

}  // namespace

Value vgg11(const ModelSpec& spec, Builder& nn, Value x) {
  return vgg(spec, nn, x, {1, 1, 2, 2, 2});
}
Value vgg16(const ModelSpec& spec, Builder& nn, Value x) {
  return vgg(spec, nn, x, {2, 2, 3, 3, 3});
}

}  // namespace lockstep::nn
