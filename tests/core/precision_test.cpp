// SPDX-License-Identifier: Apache-2.0
#include "lockstep/precision.h"

#include <gmock/gmock.h>
#include <set>

#include "core/nn/trace.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

Graph training_graph(const std::string& model, Precision precision) {
  data::SampleSpec spec;
  spec.input = {{16, 16, 3}, DType::u8};
  spec.target = {Shape{}, DType::i32};
  spec.classes = 10;
  spec.scale = {1.0f / 255};
  spec.shift = {0.0f};
  BuilderSettings settings;
  settings.mode = Mode::training;
  settings.micro_batch = 4;
  settings.precision = precision;
  nn::ModelSpec model_spec;
  model_spec.name = model;
  model_spec.outputs = 10;
  return trace(nn::make_model(model_spec), softmax_cross_entropy, spec, settings);
}

/// What output `i` of `node` is to be in bf16: activations and their gradients alone are narrow.
DType expected_type(const Graph& graph, const Node& node, std::size_t i) {
  if (graph.value(node.outputs[i]).accumulates_into >= 0) return DType::f32;
  switch (node.op->kind()) {
    case OpKind::batch_norm_moments:
    case OpKind::batch_norm_bwd_sums:
      return DType::f32;
    case OpKind::batch_norm_residual_bwd_sums:  // dz
      return i == 3 ? DType::bf16 : DType::f32;
    case OpKind::batch_norm_normalize:  // mean and rstd
      return i == 0 ? DType::bf16 : DType::f32;
    case OpKind::max_pool2d:  // the winners
      return i == 0 ? DType::bf16 : DType::u8;
    default:
      return DType::bf16;
  }
}

class LoweredGraph : public ::testing::TestWithParam<std::string> {};

TEST_P(LoweredGraph, ActivationsAreBf16AndSumsOverSamplesFp32) {
  const Graph graph = training_graph(GetParam(), Precision::bf16);
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      EXPECT_EQ(graph.value(node.outputs[i]).type.dtype, expected_type(graph, node, i))
          << "output " << i << " of " << name_of(node.op->kind()) << " " << node.path;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i)
    EXPECT_EQ(graph.value(graph.parameter_value(int(i))).type.dtype, DType::f32)
        << graph.parameters()[i].name;
}

TEST_P(LoweredGraph, EveryParameterAndMetricHasItsFp32Sum) {
  const Graph graph = training_graph(GetParam(), Precision::bf16);
  std::set<int> summed;
  for (const ValueInfo& value : graph.values())
    if (value.accumulates_into >= 0) summed.insert(value.accumulates_into);
  EXPECT_EQ(summed.size(), graph.parameters().size());
}

TEST_P(LoweredGraph, TextShowsWhichValuesAreBf16) {
  const std::string text = to_text(training_graph(GetParam(), Precision::bf16));
  EXPECT_THAT(text, HasSubstr("bf16[4, "));
  EXPECT_THAT(to_text(training_graph(GetParam(), Precision::fp32)),
              ::testing::Not(HasSubstr("bf16")));
}

// Inputs are rounded to bf16, targets that are numbers are not: the loss sees the prediction in
// fp32.
TEST(LoweredLoss, ATargetInFp32MeetsAPredictionInFp32) {
  data::SampleSpec spec;
  spec.input = {Shape{6}, DType::f32};
  spec.target = {Shape{3}, DType::f32};
  BuilderSettings settings;
  settings.micro_batch = 4;
  settings.precision = Precision::bf16;
  const auto model = [](Builder& nn, Value x) { return nn.linear(x, {.out_features = 3}); };
  const LossFunction losses[] = {
      mean_squared_error, l1_loss, huber_loss, binary_cross_entropy_with_logits};
  for (const LossFunction& loss : losses) {
    const Graph graph = trace(model, loss, spec, settings);
    int found = 0;
    for (const Node& node : graph.nodes()) {
      if (node.op->kind() == OpKind::linear) {
        EXPECT_EQ(graph.value(node.outputs[0]).type.dtype, DType::bf16);
      }
      if (!node.op->is_loss()) continue;
      ++found;
      for (const ValueId input : node.inputs)
        EXPECT_EQ(graph.value(input).type.dtype, DType::f32) << name_of(node.op->kind());
    }
    EXPECT_EQ(found, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LoweredGraph, ::testing::Values("resnet20", "convnet"));

}  // namespace
}  // namespace lockstep
