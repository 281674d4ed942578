// SPDX-License-Identifier: Apache-2.0
#include "core/plan/fuse.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/grad/differentiate.h"
#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "core/ops/norms/batch_norm.h"
#include "core/ops/norms/layer_norm.h"
#include "lockstep/zoo.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

int count(const Graph& graph, OpKind kind) {
  return int(std::ranges::count_if(graph.nodes(),
                                   [&](const Node& node) { return node.op->kind() == kind; }));
}

/// A forward graph that no pass has seen, and its loss.
struct Forward {
  Graph graph;
  ValueId loss;
};

Forward forward(const ModelFunction& model, const TensorType& sample, int classes = 10) {
  Forward f;
  Builder nn(f.graph, {.micro_batch = 4});
  std::vector<std::int64_t> dims{4};
  dims.insert(dims.end(), sample.shape.dims().begin(), sample.shape.dims().end());
  const Value x(&f.graph, f.graph.add_input(kInputName, {Shape(dims), sample.dtype}));
  const Value logits = model(nn, x);
  std::vector<std::int64_t> targets(logits.shape().dims().begin(), logits.shape().dims().end() - 1);
  const Value target(&f.graph, f.graph.add_input(kTargetName, {Shape(targets), DType::i32}));
  EXPECT_EQ(logits.shape()[-1], classes);
  f.loss = nn.softmax_cross_entropy(logits, target).id();
  return f;
}

TEST(Fuse, ResnetBlocksBecomeConvolutionsAndBatchNorms) {
  Forward f = forward(nn::make_model({.name = "resnet18"}), {{64, 64, 3}});
  const int norms = count(f.graph, OpKind::batch_norm_normalize);
  EXPECT_EQ(count(f.graph, OpKind::relu), 17);
  EXPECT_EQ(count(f.graph, OpKind::add), 8);
  f.loss = fuse_batch_norm_relu(f.graph, f.loss);
  verify(f.graph);
  EXPECT_EQ(count(f.graph, OpKind::relu), 0);
  EXPECT_EQ(count(f.graph, OpKind::add), 0);
  EXPECT_EQ(count(f.graph, OpKind::batch_norm_normalize), norms);
  int with_residual = 0;
  for (const Node& node : f.graph.nodes())
    if (node.op->kind() == OpKind::batch_norm_normalize)
      with_residual += op_cast<ops::BatchNormNormalize>(*node.op).residual();
  EXPECT_EQ(with_residual, 8);
  EXPECT_THAT(f.graph.notes(), Contains(HasSubstr("batch_norm_normalize 'bn1' fused with relu")));
}

TEST(Fuse, ActivationsGoIntoTheProductsBeforeThem) {
  const auto model = [](Builder& nn, Value x) {
    x = nn.relu(nn.conv2d(x, {.out_channels = 4, .kernel = 3}));
    x = nn.gelu(nn.linear(nn.flatten(x), {.out_features = 16}), ops::GeluKind::tanh);
    x = nn.relu(nn.linear(x, {.out_features = 16}));
    return nn.linear(x, {.out_features = 10});
  };
  Forward f = forward(model, {{8, 8, 3}});
  f.loss = fuse_activation(f.graph, f.loss, true);
  verify(f.graph);
  EXPECT_EQ(count(f.graph, OpKind::relu) + count(f.graph, OpKind::gelu), 0);
  std::vector<ops::Activation> activations;
  for (const Node& node : f.graph.nodes()) {
    EXPECT_TRUE(node.op->kind() != OpKind::conv2d || op_cast<ops::Conv2d>(*node.op).attrs().relu);
    if (node.op->kind() != OpKind::linear) continue;
    const auto& linear = op_cast<ops::Linear>(*node.op);
    activations.push_back(linear.activation());
    EXPECT_EQ(node.outputs.size(), linear.activation() == ops::Activation::gelu_tanh ? 2u : 1u);
  }
  EXPECT_EQ(
      activations,
      (std::vector{ops::Activation::gelu_tanh, ops::Activation::relu, ops::Activation::none}));
}

TEST(Fuse, AValueWithTwoReadersStays) {
  const auto model = [](Builder& nn, Value x) {
    const Value h = nn.linear(nn.flatten(x), {.out_features = 10});
    return nn.add(h, nn.relu(h));
  };
  Forward f = forward(model, {{8, 8, 3}});
  const std::string before = to_text(f.graph);
  f.loss = fuse_activation(f.graph, f.loss, true);
  EXPECT_EQ(count(f.graph, OpKind::relu), 1);
  EXPECT_TRUE(f.graph.notes().empty());
}

TEST(Fuse, LayerNormMakesTheResidualSum) {
  Forward f = forward(
      nn::make_model(
          {.name = "gpt", .outputs = 10, .layers = 3, .heads = 2, .width = 8, .context = 5}),
      {{5}, DType::i32});
  const int sums = count(f.graph, OpKind::add), norms = count(f.graph, OpKind::layer_norm);
  EXPECT_EQ(sums, 6);
  f.loss = fuse_residual_norm(f.graph, f.loss);
  verify(f.graph);
  EXPECT_EQ(count(f.graph, OpKind::add), 0);
  EXPECT_EQ(count(f.graph, OpKind::layer_norm), norms);
}

TEST(Fuse, RmsNormMakesTheResidualSum) {
  Forward f = forward(
      nn::make_model(
          {.name = "llama", .outputs = 10, .layers = 3, .heads = 2, .width = 8, .context = 5}),
      {{5}, DType::i32});
  const int norms = count(f.graph, OpKind::rms_norm);
  EXPECT_EQ(count(f.graph, OpKind::add), 6);
  f.loss = fuse_residual_norm(f.graph, f.loss);
  verify(f.graph);
  EXPECT_EQ(count(f.graph, OpKind::add), 0);
  EXPECT_EQ(count(f.graph, OpKind::rms_norm), norms);
}

TEST(Fuse, GradientsOfGeluGoIntoTheProductsBeforeThem) {
  data::SampleSpec samples;
  samples.input = {{5}, DType::i32};
  samples.target = {{5}, DType::i32};
  samples.classes = 10;
  const auto model = nn::make_model(
      {.name = "gpt", .outputs = 10, .layers = 3, .heads = 2, .width = 8, .context = 5});
  const auto traced = [&](bool fused) {
    return trace(model, softmax_cross_entropy, samples, {.micro_batch = 4, .fuse = fused});
  };
  const Graph apart = traced(false), graph = traced(true);
  EXPECT_EQ(count(apart, OpKind::gelu_bwd), 3);
  EXPECT_EQ(count(graph, OpKind::gelu_bwd), 0);
  int taken_in = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op->kind() != OpKind::linear_bwd_data) continue;
    if (op_cast<ops::LinearBwdData>(*node.op).before() == ops::Activation::none) continue;
    EXPECT_THAT(node.path, HasSubstr("mlp.c_proj"));
    EXPECT_EQ(graph.value(node.inputs[2]).type.shape[-1], 32);
    ++taken_in;
  }
  EXPECT_EQ(taken_in, 3);
  // Every gradient still goes where it went.
  const auto summed = [](const Graph& g) {
    std::vector<int> parameters;
    for (const ValueInfo& value : g.values())
      if (value.accumulates_into >= 0) parameters.push_back(value.accumulates_into);
    std::ranges::sort(parameters);
    return parameters;
  };
  EXPECT_EQ(summed(graph), summed(apart));
}

TEST(Fuse, AGradientOfGeluThatComesFromNoProductStays) {
  const auto model = [](Builder& nn, Value x) {
    x = nn.gelu(nn.linear(nn.flatten(x), {.out_features = 16}), ops::GeluKind::tanh);
    return nn.linear(nn.layer_norm(x), {.out_features = 10});
  };
  const Graph graph = trace_classifier(model, {8, 8, 3}, 10, 4);
  EXPECT_EQ(count(graph, OpKind::gelu_bwd), 1);
}

TEST(Fuse, PathsThatKeyRandomNumbersStay) {
  const auto paths = [](const Graph& graph) {
    std::vector<std::string> found;
    for (const Node& node : graph.nodes())
      if (node.op->kind() == OpKind::dropout) found.push_back(node.path);
    return found;
  };
  Forward f = forward(nn::make_model({.name = "mlp", .hidden = {8, 8}, .dropout = 0.5f}), {{20}});
  const auto before = paths(f.graph);
  EXPECT_EQ(before.size(), 2u);
  f.loss = fuse(f.graph, f.loss, true);
  EXPECT_EQ(paths(f.graph), before);
}

/// Nodes that take in the sum of two gradients.
int with_two_uses(const Graph& graph) {
  return int(std::ranges::count_if(graph.nodes(), [](const Node& node) {
    return node.op->kind() == OpKind::batch_norm_residual_bwd_sums &&
           op_cast<ops::BatchNormResidualBwdSums>(*node.op).two_uses();
  }));
}

TEST(Fuse, BackwardOfResnetBlocksMakesTheSumOfTheirTwoGradients) {
  Forward f = forward(nn::make_model({.name = "resnet18"}), {{64, 64, 3}});
  f.loss = fuse(f.graph, f.loss, true);
  differentiate(f.graph, f.loss);
  EXPECT_EQ(count(f.graph, OpKind::relu_bwd), 0);
  EXPECT_EQ(count(f.graph, OpKind::batch_norm_residual_bwd_sums), 8);
  // Two readers have all blocks but the last, which is pooled, and the max pool before the first.
  EXPECT_EQ(count(f.graph, OpKind::add), 8);
  const ValueId loss = fuse_gradient_sum(f.graph, f.loss);
  verify(f.graph);
  EXPECT_EQ(f.graph.nodes()[std::size_t(f.graph.value(loss).producer)].op->is_loss(), true);
  EXPECT_EQ(with_two_uses(f.graph), 7);
  EXPECT_EQ(count(f.graph, OpKind::add), 1);
  EXPECT_THAT(f.graph.notes(),
              Contains(HasSubstr("batch_norm_residual_bwd_sums 'layer1.0.bn2' fused with add")));
}

/// A norm with residual and ReLU whose result has `readers` readers, differentiated.
Graph differentiated(int readers, bool keep_sum = false) {
  const auto model = [=](Builder& nn, Value x) {
    const Value h = nn.linear(nn.flatten(x), {.out_features = 8});
    const Value y = nn.relu(nn.add(nn.batch_norm(nn.linear(h, {.out_features = 8})), h));
    Value sum = nn.linear(y, {.out_features = 10});
    for (int i = 1; i < readers; ++i) sum = nn.add(sum, nn.linear(y, {.out_features = 10}));
    return sum;
  };
  Forward f = forward(model, {{4}});
  f.loss = fuse_batch_norm_relu(f.graph, f.loss);
  differentiate(f.graph, f.loss);
  if (keep_sum)
    for (const Node& node : f.graph.nodes())
      if (node.op->kind() == OpKind::batch_norm_residual_bwd_sums) {
        f.graph.add_output("dy", node.inputs[1]);
        break;
      }
  fuse_gradient_sum(f.graph, f.loss);
  verify(f.graph);
  return f.graph;
}

int sums_of_gradients(const Graph& graph) {
  return int(std::ranges::count_if(graph.nodes(), [](const Node& node) {
    return node.op->kind() == OpKind::add && node.phase == NodePhase::backward;
  }));
}

TEST(Fuse, OfSeveralGradientsTheLastSumIsTakenIn) {
  // One sum of gradients stays in each: that of the residual's two uses, before no norm.
  const Graph one = differentiated(1), two = differentiated(2), three = differentiated(3);
  EXPECT_EQ(with_two_uses(one), 0);
  EXPECT_EQ(sums_of_gradients(one), 1);
  EXPECT_EQ(with_two_uses(two), 1);
  EXPECT_EQ(sums_of_gradients(two), 1);
  EXPECT_EQ(with_two_uses(three), 1);
  EXPECT_EQ(sums_of_gradients(three), 2);
}

TEST(Fuse, ASumOfGradientsThatIsReadElsewhereStays) {
  const Graph kept = differentiated(2, true);
  EXPECT_EQ(with_two_uses(kept), 0);
  EXPECT_EQ(sums_of_gradients(kept), 2);
  EXPECT_EQ(kept.outputs().back().first, "dy");
}

}  // namespace
}  // namespace lockstep
