// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/nn/zoo.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Builder, ShapeErrorNamesOperatorCallSiteAndBothShapes) {
  const int line = __LINE__ + 3;
  const std::string message = message_of([] {
    trace_classifier(
        [](Builder& nn, Value x) { return nn.add(x, nn.linear(x, {.out_features = 3})); },
        {4},
        3,
        8);
  });
  EXPECT_THAT(message, HasSubstr("add"));
  EXPECT_THAT(message, HasSubstr("f32[8, 4]"));
  EXPECT_THAT(message, HasSubstr("f32[8, 3]"));
  EXPECT_THAT(message, HasSubstr("graph_test.cpp:" + std::to_string(line)));
}

TEST(Builder, ConvolutionLargerThanItsInputIsAnError) {
  const std::string message = message_of([] {
    trace_classifier(
        [](Builder& nn, Value x) {
          return nn.flatten(nn.conv2d(x, {.out_channels = 2, .kernel = 5}));
        },
        {3, 3, 1},
        2,
        4);
  });
  EXPECT_THAT(message, HasSubstr("conv2d: the 5x5 kernel is larger than the padded input"));
}

TEST(Builder, TwoLayersOfOneNameAreAnError) {
  const std::string message = message_of([] {
    trace_classifier(
        [](Builder& nn, Value x) {
          x = nn.linear(x, {.out_features = 4, .name = "fc"});
          return nn.linear(x, {.out_features = 4, .name = "fc"});
        },
        {4},
        4,
        2);
  });
  EXPECT_THAT(message, HasSubstr("'fc.weight'"));
}

TEST(Zoo, UnknownModelOffersTheNearest) {
  try {
    nn::make_model({.name = "resnet81"});
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("resnet81"));
    EXPECT_THAT(error.hint(), HasSubstr("resnet18"));
  }
}

std::int64_t trained_elements(const Graph& graph) {
  std::int64_t sum = 0;
  for (const Parameter& p : graph.parameters())
    if (p.kind == ParameterKind::trained) sum += p.shape.elems();
  return sum;
}

// Published sizes: torchvision's resnet18 has 11,689,512 parameters for 1,000 classes; the CIFAR
// stem (3x3) replaces 64 * 3 * 49 weights by 64 * 3 * 9.
TEST(Zoo, ResNet18HasTorchvisionsParameters) {
  const Graph graph = trace_classifier(
      nn::make_model({.name = "resnet18", .outputs = 1000}), {224, 224, 3}, 1000, 1);
  EXPECT_EQ(trained_elements(graph), 11689512);
  EXPECT_EQ(graph.parameters().front().name, "conv1.weight");
  const Graph cifar = trace_classifier(
      nn::make_model({.name = "resnet18", .outputs = 1000, .stem = nn::Stem::cifar}),
      {32, 32, 3},
      1000,
      1);
  EXPECT_EQ(trained_elements(cifar), 11689512 - 64 * 3 * (49 - 9));
}

// PyTorch flattens channels first; what follows a flatten without moving elements changes nothing.
TEST(Builder, LinearBehindAFlattenedImageKeepsPytorchsLayoutThroughDropoutAndRelu) {
  for (float dropout : {0.0f, 0.5f}) {
    const Graph graph = trace_classifier(
        [dropout](Builder& nn, Value x) {
          x = nn.dropout(nn.relu(nn.flatten(x)), dropout);
          return nn.linear(x, {.out_features = 3, .name = "fc"});
        },
        {2, 5, 4},
        3,
        6);
    const FileLayout& layout = graph.parameters().front().file_layout;
    EXPECT_EQ(layout.stored, (Shape{3, 2, 5, 4})) << dropout;
    EXPECT_THAT(layout.permutation, testing::ElementsAre(0, 3, 1, 2)) << dropout;
    EXPECT_EQ(layout.file, (Shape{3, 40})) << dropout;
  }
}

TEST(Zoo, MlpIsNumberedLikeSequential) {
  const Graph graph =
      trace_classifier(nn::make_model({.name = "mlp", .outputs = 3, .hidden = {10, 7}}), {4}, 3, 5);
  std::vector<std::string> names;
  for (const Parameter& p : graph.parameters())
    if (p.kind == ParameterKind::trained) names.push_back(p.name);
  EXPECT_THAT(
      names,
      testing::ElementsAre("0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"));
}

TEST(Graph, TextIsTheSameForTheSameProgramAndNamesAttributes) {
  const auto text = [] {
    return to_text(trace_classifier(nn::make_model({.name = "convnet"}), {28, 28, 1}, 10, 8));
  };
  EXPECT_EQ(text(), text());
  EXPECT_THAT(text(), HasSubstr("conv2d_bwd_weights"));
  EXPECT_THAT(text(), HasSubstr("padding=1,1"));
  EXPECT_THAT(text(), HasSubstr("+= fc.weight"));
}

}  // namespace
}  // namespace lockstep
