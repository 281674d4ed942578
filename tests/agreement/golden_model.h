// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "core/io/safetensors.h"
#include "tests/agreement/goldens_folder.h"
#include "tests/agreement/model_run.h"
#include "tests/reference/formula.h"

namespace lockstep::test {

inline constexpr int kSteps = 10;

inline std::vector<ModelCase> model_cases() {
  const auto cifar = [](const char* name) {
    nn::ModelSpec spec{.name = name};
    spec.stem = nn::Stem::cifar;
    return spec;
  };
  const auto gpt = [](bool bias, ops::GeluKind gelu, bool tied_head) {
    nn::ModelSpec spec{.name = "gpt", .outputs = 37};
    spec.layers = spec.heads = 2;
    spec.width = 32;
    spec.context = 16;
    spec.bias = bias;
    spec.tied_head = tied_head;
    spec.gelu = gelu;
    return spec;
  };
  const auto llama = [](int kv_heads, bool tied_head) {
    nn::ModelSpec spec{.name = "llama", .outputs = 37};
    spec.layers = spec.heads = 2;
    spec.kv_heads = kv_heads;
    spec.width = 32;
    spec.mlp_width = 48;
    spec.context = 16;
    spec.tied_head = tied_head;
    return spec;
  };
  const nn::ModelSpec iris{.name = "mlp", .outputs = 3, .hidden = {10}};
  return {
      {"mlp_iris", iris, {4}, 16, 0.01f, 0.001f, 1e-8f},
      {"mlp_mnist", {.name = "mlp", .hidden = {32}}, {784}, 16, 0.01f, 0.001f, 1e-8f},
      {"convnet", {.name = "convnet"}, {1, 28, 28}, 8, 0.001f, 0.001f, 1e-8f},
      {"airbench94", {.name = "airbench94"}, {3, 32, 32}, 8, 1e-4f, 3e-5f, 1e-2f},
      {"resnet18", {.name = "resnet18"}, {3, 64, 64}, 8, 1e-4f, 3e-5f, 1e-2f},
      {"resnet18_cifar", cifar("resnet18"), {3, 16, 16}, 8, 1e-4f, 3e-5f, 1e-2f},
      {"resnet50", {.name = "resnet50"}, {3, 64, 64}, 4, 1e-4f, 3e-5f, 1e-2f},
      {"vgg11_cifar", cifar("vgg11"), {3, 32, 32}, 8, 1e-4f, 3e-5f, 1e-2f},
      {"mobilenet_v2_cifar", cifar("mobilenet-v2"), {3, 16, 16}, 8, 3e-3f, 1e-4f, 1e-2f},
      {"convnext_tiny_cifar", cifar("convnext-tiny"), {3, 16, 16}, 4, 1e-2f, 1e-3f, 1e-4f},
      {"vit_ti16_cifar", cifar("vit-ti16"), {3, 16, 16}, 4, 0.01f, 0.001f, 1e-4f},
      {"gpt", gpt(true, ops::GeluKind::tanh, true), {16}, 4, 0.01f, 0.001f, 1e-4f},
      {"gpt_plain", gpt(false, ops::GeluKind::erf, false), {16}, 4, 0.01f, 0.001f, 1e-8f},
      {"llama", llama(2, true), {16}, 4, 0.01f, 0.001f, 1e-8f},
      {"llama_grouped", llama(1, false), {16}, 4, 0.01f, 0.001f, 1e-8f},
  };
}

/// The golden file of one model: what float64 gives, and how far PyTorch's own fp32 runs come to
/// lie from that. kFactor times as far may ours:
///   2, since a sum in one chain is off by twice as much as the same sum in four, and PyTorch's
/// runs show its own kernels' orders alone;
///   4, for losses and logits over the farthest element of all runs; for sketches, whose distance
/// has the variance of the elements' distance, four standard deviations where ours is as far off as
/// the worst tensor of the worst run.
/// What is bounded is thus the rms distance of each whole tensor, measured by how large it is
/// (gradients) or how far it went (weights); where that is zero but for rounding, by how far
/// PyTorch's runs are off. noise.* in the files says how much that is: up to 7e-6 of a gradient and
/// 1.5e-4 of the way in shallow models and those that have no ReLU (vit, convnext, gpt, llama),
/// where every constant of an optimizer shows; up to 2e-2 and 8e-2 in deep ones, where ReLUs within
/// rounding of zero open in one run and not in another. Those see a wrong gradient of any layer, a
/// missing bias correction or twice the eps, but not beta2 0.99 for 0.999.
///   MobileNetV2's is 2e-4 and 3e-2. Its weights start where ReLU6 cuts few values off, which keeps
/// chance out of ten steps; but where nothing is cut off, the batch norm after a convolution takes
/// out most of what the biases before it do. So these biases, of 2, have small gradients, and some
/// go less than ten of fp32's steps there. Larger rates let them go farther, until chance is back
/// (adamw at 3e-4: 3e-1 of the way). They see a momentum of 0.89 for 0.9, and no weight decay.
class GoldenModel {
 public:
  /// `name`: of a file in the goldens' folder, which may be in one below.
  explicit GoldenModel(const std::string& name)
      : file_(goldens_folder() + "/" + name + ".safetensors") {}

  /// Each of `actual` (step or class) against the golden tensor.
  template <typename T>
  void expect(const std::string& name, const std::vector<T>& actual) {
    const auto golden = file_.read<double>(name);
    ASSERT_EQ(golden.size(), actual.size()) << name;
    for (std::size_t i = 0; i < golden.size(); ++i)
      EXPECT_NEAR(double(actual[i]), golden[i], kFactor * noise(name)) << name << "[" << i << "]";
    ++compared_;
  }
  /// The sketches of tensor `group`.`parameter`.
  void expect_sketch(const std::string& group,
                     const std::string& parameter,
                     const std::vector<float>& tensor) {
    const auto golden = file_.read<double>(group + "." + parameter);
    ASSERT_EQ(golden.size(), reference::kSketches + 1u) << parameter;
    const std::vector<double> sketches = reference::sketch(tensor);
    for (std::size_t k = 0; k < sketches.size(); ++k)
      EXPECT_NEAR(sketches[k], golden[k], kFactor * noise(group) * golden.back())
          << group << "." << parameter << " sketch " << k;
    ++compared_;
  }
  /// Whether every tensor but those of `other` optimizer and the noise was looked at.
  void expect_all_compared(const std::string& other) const {
    const auto left = std::ranges::count_if(file_.entries(), [&](const io::TensorEntry& entry) {
      return entry.name.starts_with(other) || entry.name.starts_with("noise.");
    });
    EXPECT_EQ(compared_ + std::size_t(left), file_.entries().size());
  }

 private:
  static constexpr double kFactor = 2 * 4;
  double noise(const std::string& what) const { return file_.read<double>("noise." + what)[0]; }

  io::SafetensorsReader file_;
  std::size_t compared_ = 0;
};

}  // namespace lockstep::test
