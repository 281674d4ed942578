// SPDX-License-Identifier: Apache-2.0
#include "core/nn/convnext.h"

#include <fmt/format.h>

namespace lockstep::nn {
namespace {

constexpr int kStageBlocks[] = {3, 3, 9, 3}, kAllBlocks = 18;
constexpr std::int64_t kStemChannels = 96;
constexpr float kWeightDeviation = 0.02f, kLayerNormEps = 1e-6f, kLayerScale = 1e-6f;

Value normalised(Builder& nn, Value x, const char* name) {
  return nn.layer_norm(x, {.eps = kLayerNormEps, .name = name});
}

/// Patches that do not overlap.
Value patches(Builder& nn, Value x, std::int64_t channels, int size, const char* name) {
  return nn.conv2d(x,
                   {.out_channels = channels,
                    .kernel = size,
                    .stride = size,
                    .normal_init = kWeightDeviation,
                    .name = name});
}

Value each_pixel(Builder& nn, Value x, std::int64_t channels, const char* name) {
  return nn.linear(x,
                   {.out_features = channels,
                    .normal_init = kWeightDeviation,
                    .name = name,
                    .every_pixel = true});
}

/// Layers are numbered as in torchvision's CNBlock, whose 1 and 6 permute.
Value convnext_block(Builder& nn, Value x, float skipped) {
  const std::int64_t channels = x.shape()[3];
  Value y = x;
  {
    const auto scope = nn.scope("block");
    y = nn.conv2d(y,
                  {.out_channels = channels,
                   .kernel = 7,
                   .padding = 3,
                   .groups = int(channels),
                   .normal_init = kWeightDeviation,
                   .name = "0"});
    y = each_pixel(nn, normalised(nn, y, "2"), 4 * channels, "3");
    y = each_pixel(nn, nn.gelu(y, ops::GeluKind::erf), channels, "5");
  }
  y = nn.channel_scale(y, kLayerScale, "layer_scale");
  return nn.add(x, nn.stochastic_depth(y, skipped));
}

}  // namespace

Value convnext_tiny(const ModelSpec& spec, Builder& nn, Value x) {
  {
    const auto scope = nn.scope("features");
    x = patches(nn, x, kStemChannels, spec.stem == Stem::cifar ? 2 : 4, "0.0");
    x = normalised(nn, x, "0.1");
    int block = 0;
    for (int stage = 0; stage < 4; ++stage) {
      if (stage > 0) {
        const auto place = nn.scope(std::to_string(2 * stage));
        x = patches(nn, normalised(nn, x, "0"), kStemChannels << stage, 2, "1");
      }
      for (int i = 0; i < kStageBlocks[stage]; ++i, ++block) {
        const auto place = nn.scope(fmt::format("{}.{}", 2 * stage + 1, i));
        x = convnext_block(nn, x, spec.stochastic_depth * float(block) / float(kAllBlocks - 1));
      }
    }
  }
  x = normalised(nn, nn.global_avg_pool(x), "classifier.0");
  x = nn.dropout(x, spec.dropout);
  return nn.linear(
      x, {.out_features = spec.outputs, .normal_init = kWeightDeviation, .name = "classifier.2"});
}

}  // namespace lockstep::nn
