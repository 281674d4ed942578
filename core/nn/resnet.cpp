// SPDX-License-Identifier: Apache-2.0
#include "core/nn/resnet.h"

#include <array>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::nn {
namespace {

Value conv(Builder& nn, Value x, std::int64_t channels, int kernel, int stride, const char* name) {
  return nn.conv2d(x,
                   {.out_channels = channels,
                    .kernel = kernel,
                    .stride = stride,
                    .padding = kernel / 2,
                    .bias = false,
                    .he_normal_init = true,
                    .name = name});
}

/// The block's input as its output wants it: by a 1x1 convolution where the shape changes.
Value shortcut(Builder& nn, Value x, std::int64_t channels, int stride) {
  if (stride == 1 && x.shape()[3] == channels) return x;
  const auto scope = nn.scope("downsample");
  return nn.batch_norm(conv(nn, x, channels, 1, stride, "0"), {.name = "1"});
}

Value basic_block(Builder& nn, Value x, std::int64_t channels, int stride) {
  Value y = nn.relu(nn.batch_norm(conv(nn, x, channels, 3, stride, "conv1"), {.name = "bn1"}));
  y = nn.batch_norm(conv(nn, y, channels, 3, 1, "conv2"), {.name = "bn2"});
  return nn.relu(nn.add(y, shortcut(nn, x, channels, stride)));
}

/// "v1.5": the stride is in the 3x3 convolution (Goyal et al. 2017), not in the first 1x1.
Value bottleneck(Builder& nn, Value x, std::int64_t channels, int stride) {
  Value y = nn.relu(nn.batch_norm(conv(nn, x, channels, 1, 1, "conv1"), {.name = "bn1"}));
  y = nn.relu(nn.batch_norm(conv(nn, y, channels, 3, stride, "conv2"), {.name = "bn2"}));
  y = nn.batch_norm(conv(nn, y, 4 * channels, 1, 1, "conv3"), {.name = "bn3"});
  return nn.relu(nn.add(y, shortcut(nn, x, 4 * channels, stride)));
}

using Block = Value (*)(Builder&, Value, std::int64_t, int);

Value stage(Builder& nn, Value x, Block block, int number, std::int64_t channels, int blocks) {
  for (int i = 0; i < blocks; ++i) {
    const auto scope = nn.scope(fmt::format("layer{}.{}", number, i));
    x = block(nn, x, channels, i == 0 && number > 1 ? 2 : 1);
  }
  return x;
}

Value head(const ModelSpec& spec, Builder& nn, Value x) {
  x = nn.dropout(nn.global_avg_pool(x), spec.dropout);
  return nn.linear(x, {.out_features = spec.outputs, .name = "fc"});
}

Value imagenet_resnet(
    const ModelSpec& spec, Builder& nn, Value x, Block block, std::array<int, 4> blocks) {
  const bool cifar = spec.stem == Stem::cifar;
  x = conv(nn, x, 64, cifar ? 3 : 7, cifar ? 1 : 2, "conv1");
  x = nn.relu(nn.batch_norm(x, {.name = "bn1"}));
  if (!cifar) x = nn.max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  for (int i = 0; i < 4; ++i) x = stage(nn, x, block, i + 1, 64ll << i, blocks[std::size_t(i)]);
  return head(spec, nn, x);
}

}  // namespace

Value resnet18(const ModelSpec& spec, Builder& nn, Value x) {
  return imagenet_resnet(spec, nn, x, basic_block, {2, 2, 2, 2});
}
Value resnet34(const ModelSpec& spec, Builder& nn, Value x) {
  return imagenet_resnet(spec, nn, x, basic_block, {3, 4, 6, 3});
}
Value resnet50(const ModelSpec& spec, Builder& nn, Value x) {
  return imagenet_resnet(spec, nn, x, bottleneck, {3, 4, 6, 3});
}
Value resnet101(const ModelSpec& spec, Builder& nn, Value x) {
  return imagenet_resnet(spec, nn, x, bottleneck, {3, 4, 23, 3});
}
Value resnet152(const ModelSpec& spec, Builder& nn, Value x) {
  return imagenet_resnet(spec, nn, x, bottleneck, {3, 8, 36, 3});
}

Value resnet20(const ModelSpec& spec, Builder& nn, Value x) {
  x = nn.relu(nn.batch_norm(conv(nn, x, 16, 3, 1, "conv1"), {.name = "bn1"}));
  for (int i = 0; i < 3; ++i) x = stage(nn, x, basic_block, i + 1, 16ll << i, 3);
  return head(spec, nn, x);
}

}  // namespace lockstep::nn
