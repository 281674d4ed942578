// SPDX-License-Identifier: Apache-2.0
#include "core/nn/resnet.h"

#include "core/base/error.h"

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

Value basic_block(Builder& nn, Value x, std::int64_t channels, int stride) {
  Value y = nn.relu(nn.batch_norm(conv(nn, x, channels, 3, stride, "conv1"), {.name = "bn1"}));
  y = nn.batch_norm(conv(nn, y, channels, 3, 1, "conv2"), {.name = "bn2"});
  if (stride != 1 || x.shape()[3] != channels) {
    const auto scope = nn.scope("downsample");
    x = nn.batch_norm(conv(nn, x, channels, 1, stride, "0"), {.name = "1"});
  }
  return nn.relu(nn.add(y, x));
}

Value stage(Builder& nn, Value x, int number, std::int64_t channels, int blocks, int stride) {
  for (int block = 0; block < blocks; ++block) {
    const auto scope = nn.scope(fmt::format("layer{}.{}", number, block));
    x = basic_block(nn, x, channels, block == 0 ? stride : 1);
  }
  return x;
}

Value head(const ModelSpec& spec, Builder& nn, Value x) {
  x = nn.dropout(nn.global_avg_pool(x), spec.dropout);
  return nn.linear(x, {.out_features = spec.outputs, .name = "fc"});
}

}  // namespace

Value resnet18(const ModelSpec& spec, Builder& nn, Value x) {
  const bool cifar = spec.stem == Stem::cifar;
  x = conv(nn, x, 64, cifar ? 3 : 7, cifar ? 1 : 2, "conv1");
  x = nn.relu(nn.batch_norm(x, {.name = "bn1"}));
  if (!cifar) x = nn.max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  for (int i = 0; i < 4; ++i) x = stage(nn, x, i + 1, 64ll << i, 2, i == 0 ? 1 : 2);
  return head(spec, nn, x);
}

Value resnet20(const ModelSpec& spec, Builder& nn, Value x) {
  x = nn.relu(nn.batch_norm(conv(nn, x, 16, 3, 1, "conv1"), {.name = "bn1"}));
  for (int i = 0; i < 3; ++i) x = stage(nn, x, i + 1, 16ll << i, 3, i == 0 ? 1 : 2);
  return head(spec, nn, x);
}

}  // namespace lockstep::nn
