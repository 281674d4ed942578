// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::benchmarks {

/// A square convolution without bias, padded so that only the stride shrinks the image.
struct ConvLayer {
  int in, out, size, kernel, stride;
  int out_size() const { return (size - 1) / stride + 1; }
  int padding() const { return kernel / 2; }
};

/// He et al. 2016, table 1, 18 layers, with a 3x3 stride-1 stem: four stages of two blocks of two
/// 3x3 convolutions, and a 1x1 shortcut where a stage halves the image.
inline std::vector<ConvLayer> resnet18_cifar_layers(int size, int channels) {
  std::vector<ConvLayer> layers{{channels, 64, size, 3, 1}};
  int width = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const int out = 64 << stage, stride = stage == 0 ? 1 : 2;
    layers.push_back({width, out, size, 3, stride});
    if (stride == 2) layers.push_back({width, out, size, 1, 2});
    size = (size - 1) / stride + 1;
    for (int i = 0; i < 3; ++i) layers.push_back({out, out, size, 3, 1});
    width = out;
  }
  return layers;
}

/// The same table, 50 layers: a 7x7 stem, a max-pool that halves, and bottleneck blocks whose 3x3
/// convolution has the stride ("v1.5").
inline std::vector<ConvLayer> resnet50_layers(int size, int channels) {
  std::vector<ConvLayer> layers{{channels, 64, size, 7, 2}};
  size = (layers.front().out_size() - 1) / 2 + 1;
  int width = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int middle = 64 << stage, out = 4 * middle;
    for (int block = 0; block < blocks[stage]; ++block) {
      const int stride = stage > 0 && block == 0 ? 2 : 1;
      layers.push_back({width, middle, size, 1, 1});
      layers.push_back({middle, middle, size, 3, stride});
      if (block == 0) layers.push_back({width, out, size, 1, stride});
      size = (size - 1) / stride + 1;
      layers.push_back({middle, out, size, 1, 1});
      width = out;
    }
  }
  return layers;
}

/// Throws std::invalid_argument: no such network.
inline std::vector<ConvLayer> conv_layers(const std::string& network, int size, int channels) {
  if (network == "resnet18-cifar") return resnet18_cifar_layers(size, channels);
  if (network == "resnet50") return resnet50_layers(size, channels);
  throw std::invalid_argument("the network is resnet18-cifar or resnet50, not " + network);
}

}  // namespace lockstep::benchmarks
