// SPDX-License-Identifier: Apache-2.0
#include "core/nn/airbench.h"

#include <string>

namespace lockstep::nn {
namespace {

constexpr int kPatch = 2;
constexpr float kLogitScale = 1.0f / 9;

Value convolution(Builder& nn, Value x, std::int64_t channels, const std::string& index) {
  return nn.conv2d(x,
                   {.out_channels = channels,
                    .kernel = 3,
                    .padding = 1,
                    .bias = false,
                    .dirac_init = true,
                    .name = "conv" + index});
}

Value norm_and_gelu(Builder& nn, Value x, const std::string& index) {
  // The code's: statistics that follow a short run, and no variance that eps would matter to.
  constexpr float kEps = 1e-12f, kMomentum = 0.4f;
  return nn.gelu(nn.batch_norm(
      x, {.eps = kEps, .momentum = kMomentum, .trains_weight = false, .name = "norm" + index}));
}

Value group(Builder& nn, Value x, std::int64_t channels, const char* name) {
  const auto scope = nn.scope(name);
  x = nn.max_pool2d(convolution(nn, x, channels, "1"), {.kernel = 2});
  x = norm_and_gelu(nn, x, "1");
  return norm_and_gelu(nn, convolution(nn, x, channels, "2"), "2");
}

}  // namespace

// Numbered as the code's torch.nn.Sequential, layers without parameters included.
Value airbench94(const ModelSpec& spec, Builder& nn, Value x) {
  x = nn.conv2d(x,
                {.out_channels = 2 * kPatch * kPatch * x.shape()[3],
                 .kernel = kPatch,
                 .whitening = true,
                 .name = "0"});
  x = nn.gelu(x);
  x = group(nn, x, 64, "2");
  x = group(nn, x, 256, "3");
  x = group(nn, x, 256, "4");
  x = nn.flatten(nn.max_pool2d(x, {.kernel = 3}));
  return nn.scale(nn.linear(x, {.out_features = spec.outputs, .bias = false, .name = "7"}),
                  kLogitScale);
}

}  // namespace lockstep::nn
