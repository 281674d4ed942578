// SPDX-License-Identifier: Apache-2.0
#include "core/step/parameter_rates.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/nn/trace.h"
#include "lockstep/error.h"
#include "lockstep/optimizers/adamw.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

Parameter trained_parameter(const char* name, bool bias = false) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = {4};
  parameter.normalisation_or_bias = bias;
  return parameter;
}

/// As a small ResNet declares them.
std::vector<Parameter> small_resnet() {
  std::vector<Parameter> parameters{trained_parameter("conv1.weight"),
                                    trained_parameter("bn1.weight", true),
                                    trained_parameter("layer1.0.conv1.weight"),
                                    trained_parameter("layer1.0.bn1.bias", true),
                                    trained_parameter("layer1.1.conv1.weight"),
                                    trained_parameter("layer2.0.conv1.weight"),
                                    trained_parameter("fc.weight"),
                                    trained_parameter("fc.bias", true),
                                    trained_parameter("loss")};
  parameters.back().kind = ParameterKind::metric;
  return parameters;
}

const Optimizer kAdamW = AdamW{.lr = 0.5f, .weight_decay = 0.25f};

TEST(ParameterRates, BiasesAndNormsDoNotDecayUnlessAsked) {
  const auto rates = parameter_rates(small_resnet(), kAdamW, {.no_decay = {"layer1.1"}});
  EXPECT_EQ(rates[0].weight_decay, 0.25f);
  EXPECT_EQ(rates[1].weight_decay, 0.0f);
  EXPECT_EQ(rates[4].weight_decay, 0.0f);
  EXPECT_EQ(parameter_rates(small_resnet(), kAdamW, {.decay_all = true})[1].weight_decay, 0.25f);
}

TEST(ParameterRates, TheFirstGroupThatMatchesSetsRateAndDecay) {
  const auto rates = parameter_rates(
      small_resnet(),
      kAdamW,
      {.groups = {{.pattern = "^fc", .lr = 1.0f}, {.pattern = "bias", .weight_decay = 0.125f}}});
  EXPECT_EQ(rates[6].lr_scale, 2.0f);
  EXPECT_EQ(rates[7].lr_scale, 2.0f);
  EXPECT_EQ(rates[7].weight_decay, 0.0f);  // of the first group, which says nothing of decay
  EXPECT_EQ(rates[3].weight_decay, 0.125f);
  EXPECT_EQ(rates[3].lr_scale, 1.0f);
  EXPECT_EQ(rates[0].group, -1);
}

TEST(ParameterRates, LayersFollowTheNumbersInNames) {
  const std::vector<int> layers = layers_of(small_resnet());
  EXPECT_EQ(layers, (std::vector<int>{0, 0, 1, 1, 2, 3, 4, 4, 4}));
  // torchvision's vision transformers, whose mlp has numbers too.
  std::vector<Parameter> vit{trained_parameter("conv_proj.weight"),
                             trained_parameter("class_token")};
  for (const char* block : {"encoder.layers.encoder_layer_0", "encoder.layers.encoder_layer_1"})
    for (const char* name :
         {"ln_1.weight", "self_attention.in_proj_weight", "mlp.0.weight", "mlp.3.weight"})
      vit.push_back(trained_parameter(fmt::format("{}.{}", block, name).c_str()));
  vit.push_back(trained_parameter("encoder.ln.weight"));
  vit.push_back(trained_parameter("heads.head.weight"));
  EXPECT_EQ(layers_of(vit), (std::vector<int>{0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3}));
  const std::vector<Parameter> vgg{trained_parameter("features.0.weight"),
                                   trained_parameter("features.3.weight"),
                                   trained_parameter("classifier.0.weight"),
                                   trained_parameter("classifier.6.weight")};
  EXPECT_EQ(layers_of(vgg), (std::vector<int>{0, 1, 2, 2}));
  const std::vector<Parameter> plain{trained_parameter("weight"), trained_parameter("bias", true)};
  EXPECT_EQ(layers_of(plain), (std::vector<int>{0, 0}));
}

std::vector<int> layers_of_model(const char* name) {
  data::SampleSpec samples;
  samples.input = {{32, 32, 3}, DType::u8};
  samples.target = {{}, DType::i32};
  samples.classes = 10;
  samples.scale = {1};
  samples.shift = {0};
  const Graph graph =
      trace_prediction(nn::make_model({.name = name, .outputs = 10, .stem = nn::Stem::cifar}),
                       samples,
                       {.micro_batch = 1});
  return layers_of(graph.parameters());
}

// ConvNeXt's original ("A ConvNet for the 2020s") and timm have the convolution and the norm of the
// stem in one first layer, and the head's norm with the head; timm has what makes an image smaller
// with the block after it: 1 + 18 + 1 layers.
TEST(ParameterRates, LayersOfConvNeXt) {
  const std::vector<int> layers = layers_of_model("convnext-tiny");
  const std::size_t block = 9;  // tensors of one
  std::vector<int> expected(4, 0);
  for (int b = 0; b < 18; ++b) {
    const bool smaller = b == 3 || b == 6 || b == 15;
    expected.insert(expected.end(), block + (smaller ? 4 : 0), b + 1);
  }
  expected.insert(expected.end(), 4, 19);
  EXPECT_EQ(layers, expected);
}

// Stem, 17 blocks, the last convolution, the head; each with its norms.
TEST(ParameterRates, LayersOfMobileNet) {
  const std::vector<int> layers = layers_of_model("mobilenet-v2");
  EXPECT_EQ(layers.front(), 0);
  EXPECT_EQ(layers.back(), 19);
  EXPECT_TRUE(std::ranges::is_sorted(layers));
  EXPECT_EQ(std::ranges::count(layers, 0), 6);  // convolution, and five tensors of the norm
  EXPECT_EQ(std::ranges::count(layers, 18), 6);
  EXPECT_EQ(std::ranges::count(layers, 19), 2);
}

TEST(ParameterRates, LayerDecayLeavesTheLastLayerAlone) {
  const auto rates = parameter_rates(
      small_resnet(), kAdamW, {.groups = {{.pattern = "conv1", .lr = 1.0f}}, .layer_decay = 0.5f});
  EXPECT_EQ(rates[6].lr_scale, 1.0f);
  EXPECT_EQ(rates[5].lr_scale, 1.0f);    // 0.5 of the group's 2
  EXPECT_EQ(rates[0].lr_scale, 0.125f);  // 0.5^4 of 2
  EXPECT_EQ(rates[1].lr_scale, 0.0625f);
}

TEST(ParameterRates, GroupsThatCannotBeMeantAreRefused) {
  const auto refused = [](ParameterGroup group, const Optimizer& optimizer = kAdamW) {
    EXPECT_THROW(parameter_rates(small_resnet(), optimizer, {.groups = {std::move(group)}}),
                 ConfigError);
  };
  refused({.pattern = "no such", .lr = 1.0f});
  refused({.pattern = "loss", .lr = 1.0f});  // not trained
  refused({.pattern = ".", .lr = 1.0f});     // everything
  refused({.pattern = "(", .lr = 1.0f});
  refused({.pattern = "fc"});
  refused({.pattern = "fc", .lr = -1.0f});
  refused({.pattern = "fc", .lr = 1.0f}, AdamW{.lr = 0.0f});
  EXPECT_THROW(parameter_rates(small_resnet(), kAdamW, {.layer_decay = 0.0f}), ConfigError);
  const std::vector<Parameter> plain{trained_parameter("conv.weight"),
                                     trained_parameter("fc.weight")};
  EXPECT_THROW(parameter_rates(plain, kAdamW, {.layer_decay = 0.5f}), ConfigError);
  const auto rest = parameter_rates(
      plain, kAdamW, {.groups = {{.pattern = "conv", .lr = 1.0f}, {.pattern = ".", .lr = 0.25f}}});
  EXPECT_EQ(rest[1].lr_scale, 0.5f);  // a last group for all others
  EXPECT_THROW(parameter_rates(small_resnet(),
                               kAdamW,
                               {.groups = {{.pattern = "fc", .lr = 1.0f},
                                           {.pattern = "fc.bias", .weight_decay = 0.0f}}}),
               ConfigError);
}

TEST(ParameterRates, UsesCountTensorsAndValues) {
  const std::vector<ParameterGroup> groups{{.pattern = "^fc", .lr = 1.0f}};
  const auto uses = group_uses(
      small_resnet(), parameter_rates(small_resnet(), kAdamW, {.groups = groups}), groups);
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].tensors, 2);
  EXPECT_EQ(uses[0].elems, 8);
}

}  // namespace
}  // namespace lockstep
