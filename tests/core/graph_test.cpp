// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "lockstep/zoo.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

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
    EXPECT_THAT(layout.permutation, ::testing::ElementsAre(0, 3, 1, 2)) << dropout;
    EXPECT_EQ(layout.file, (Shape{3, 40})) << dropout;
  }
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
