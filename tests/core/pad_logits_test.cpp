// SPDX-License-Identifier: Apache-2.0
#include "core/plan/pad_logits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops/linear.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

enum class Reads { loss, another };

Graph traced(int classes,
             Mode mode = Mode::training,
             Precision precision = Precision::bf16,
             Reads reads = Reads::loss,
             std::int64_t multiple = 64) {
  data::SampleSpec samples;
  samples.input = {{24}, DType::f32};
  samples.target = {Shape{}, DType::i32};
  samples.classes = classes;
  const auto model = [=](Builder& nn, Value x) {
    x = nn.linear(x, {.out_features = classes, .bias = false, .name = "head"});
    return reads == Reads::loss ? x : nn.scale(x, 0.5f);
  };
  BuilderSettings settings;
  settings.mode = mode;
  settings.micro_batch = 4;
  settings.precision = precision;
  settings.row_multiple = multiple;
  return trace(model, softmax_cross_entropy, samples, settings);
}

const Node* find(const Graph& graph, OpKind kind) {
  for (const Node& node : graph.nodes())
    if (node.op->kind() == kind) return &node;
  return nullptr;
}

Shape shape_of(const Graph& graph, ValueId value) { return graph.value(value).type.shape; }

TEST(PadLogits, RowsOfTheLogitsAndTheirGradientAreMultiplesOf64AndWeightsStay) {
  for (const Mode mode : {Mode::training, Mode::evaluation}) {
    const Graph graph = traced(50257, mode);
    const Node& head = *find(graph, OpKind::linear);
    const Node& loss = *find(graph, OpKind::softmax_cross_entropy);
    EXPECT_EQ(shape_of(graph, head.outputs[0]), (Shape{4, 50304}));
    EXPECT_EQ(shape_of(graph, head.inputs[1]), (Shape{50257, 24}));
    EXPECT_EQ(op_cast<ops::SoftmaxCrossEntropy>(*loss.op).classes(graph.value(loss.inputs[0]).type),
              50257);
    EXPECT_THAT(graph.notes(), Contains(HasSubstr("'head' pads 50257 classes to 50304")));
    if (mode == Mode::evaluation) continue;
    EXPECT_EQ(shape_of(graph, loss.outputs[2]), (Shape{4, 50304}));
    const Node& weights = *find(graph, OpKind::linear_bwd_weights);
    EXPECT_EQ(shape_of(graph, weights.inputs[1]), (Shape{4, 50304}));
    EXPECT_EQ(shape_of(graph, weights.outputs[0]), (Shape{50257, 24}));
    EXPECT_EQ(graph.parameters()[0].shape, (Shape{50257, 24}));
  }
}

TEST(PadLogits, FewClassesHaveLessPaddingAndOthersStayAsTheyAre) {
  const auto length = [](const Graph& graph) {
    return shape_of(graph, find(graph, OpKind::linear)->outputs[0])[-1];
  };
  EXPECT_EQ(length(traced(1025)), 1088);
  EXPECT_EQ(length(traced(1023)), 1024);  // few: multiples of eight
  EXPECT_EQ(length(traced(65)), 72);
  EXPECT_EQ(length(traced(72)), 72);
  EXPECT_EQ(length(traced(50264)), 50264);  // 16 bytes divide its rows
  EXPECT_EQ(length(traced(50257, Mode::training, Precision::fp32)), 50257);
  EXPECT_EQ(length(traced(50257, Mode::training, Precision::bf16, Reads::another)), 50257);
  EXPECT_EQ(length(traced(50257, Mode::training, Precision::bf16, Reads::loss, 1)), 50257);
}

}  // namespace
}  // namespace lockstep
