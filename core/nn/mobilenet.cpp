// SPDX-License-Identifier: Apache-2.0
#include "core/nn/mobilenet.h"

#include <fmt/format.h>

namespace lockstep::nn {
namespace {

/// Blocks of table 2: t, c, n, s.
struct Stage {
  int expansion;
  std::int64_t channels;
  int blocks, stride;
};
constexpr Stage kStages[] = {{1, 16, 1, 1},
                             {6, 24, 2, 2},
                             {6, 32, 3, 2},
                             {6, 64, 4, 2},
                             {6, 96, 3, 1},
                             {6, 160, 3, 2},
                             {6, 320, 1, 1}};
constexpr std::int64_t kFirstChannels = 32, kLastChannels = 1280;

/// A convolution of `kernel` x `kernel` without bias, and its batch norm.
struct Convolution {
  std::int64_t channels;
  int kernel = 1, stride = 1, groups = 1;
};
Value normed(
    Builder& nn, Value x, const Convolution& c, const std::string& name, const std::string& norm) {
  x = nn.conv2d(x,
                {.out_channels = c.channels,
                 .kernel = c.kernel,
                 .stride = c.stride,
                 .padding = c.kernel / 2,
                 .groups = c.groups,
                 .bias = false,
                 .he_normal_init = true,
                 .name = name});
  return nn.batch_norm(x, {.name = norm});
}

/// The same with ReLU6, as torchvision's Conv2dNormActivation numbers them.
Value activated(Builder& nn, Value x, const Convolution& c, int index) {
  const auto scope = nn.scope(std::to_string(index));
  return nn.relu6(normed(nn, x, c, "0", "1"));
}

Value inverted_residual(Builder& nn, Value x, int expansion, std::int64_t channels, int stride) {
  const auto scope = nn.scope("conv");
  const std::int64_t in = x.shape()[3], hidden = in * expansion;
  Value y = x;
  int index = 0;
  if (expansion != 1) y = activated(nn, y, {.channels = hidden}, index++);
  y = activated(
      nn, y, {.channels = hidden, .kernel = 3, .stride = stride, .groups = int(hidden)}, index++);
  y = normed(nn, y, {.channels = channels}, std::to_string(index), std::to_string(index + 1));
  return stride == 1 && in == channels ? nn.add(x, y) : y;
}

Value features(const ModelSpec& spec, Builder& nn, Value x) {
  const auto scope = nn.scope("features");
  const bool cifar = spec.stem == Stem::cifar;
  int index = 0;
  x = activated(nn, x, {.channels = kFirstChannels, .kernel = 3, .stride = cifar ? 1 : 2}, index++);
  for (const Stage& stage : kStages)
    for (int block = 0; block < stage.blocks; ++block) {
      const auto place = nn.scope(std::to_string(index++));
      const bool halves = block == 0 && !(cifar && stage.channels == 24);
      x = inverted_residual(nn, x, stage.expansion, stage.channels, halves ? stage.stride : 1);
    }
  return activated(nn, x, {.channels = kLastChannels}, index);
}

}  // namespace

Value mobilenet_v2(const ModelSpec& spec, Builder& nn, Value x) {
  x = nn.dropout(nn.global_avg_pool(features(spec, nn, x)), spec.dropout);
  return nn.linear(x, {.out_features = spec.outputs, .normal_init = 0.01f, .name = "classifier.1"});
}

}  // namespace lockstep::nn
