// SPDX-License-Identifier: Apache-2.0
// A head whose logits have padded rows learns what one without padding does.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "core/nn/trace.h"
#include "tests/agreement/graph_runner.h"
#include "tests/reference/formula.h"
#include "tests/support/test_backend.h"

namespace lockstep::test {
namespace {

constexpr int kFeatures = 24, kSamples = 3;

Graph head(int classes, std::int64_t row_multiple) {
  data::SampleSpec samples;
  samples.input = {{kFeatures}, DType::f32};
  samples.target = {Shape{}, DType::i32};
  samples.classes = classes;
  BuilderSettings settings;
  settings.micro_batch = kSamples;
  settings.precision = Precision::bf16;
  settings.row_multiple = row_multiple;
  return trace(
      [&](Builder& nn, Value x) {
        x = nn.linear(x, {.out_features = 16, .name = "body"});
        return nn.linear(x, {.out_features = classes, .bias = false, .name = "head"});
      },
      softmax_cross_entropy,
      samples,
      settings);
}

/// What is summed into each parameter: gradients, loss and right answers.
std::vector<std::vector<float>> sums_of(const Graph& graph, int classes, Backend& backend) {
  GraphRunner runner(graph, backend);
  for (int i = 0; i < int(graph.parameters().size()); ++i) {
    const Parameter& p = graph.parameters()[std::size_t(i)];
    if (p.kind != ParameterKind::trained) continue;
    const auto values = reference::values(p.name, p.shape.elems(), 0.5f);
    runner.set<float>(graph.parameter_value(i), values);
  }
  const auto x = reference::values("x", kSamples * kFeatures, 1.0f);
  const std::vector<std::int32_t> labels{0, classes - 1, classes / 2};
  const std::vector<float> weight{1.0f / kSamples};
  for (std::size_t i = 0; i < graph.input_names().size(); ++i) {
    const ValueId input = graph.input_value(int(i));
    if (graph.input_names()[i] == kInputName) runner.set<float>(input, x);
    if (graph.input_names()[i] == kTargetName) runner.set<std::int32_t>(input, labels);
    if (graph.input_names()[i] == kSampleWeightName) runner.set<float>(input, weight);
  }
  runner.run();
  std::vector<std::vector<float>> sums(graph.parameters().size());
  for (std::size_t v = 0; v < graph.values().size(); ++v)
    if (const int into = graph.values()[v].accumulates_into; into >= 0)
      sums[std::size_t(into)] = runner.get(ValueId(v));
  return sums;
}

class PaddedLogits : public ::testing::TestWithParam<int> {};

TEST_P(PaddedLogits, LossAndGradientsAreThoseWithoutPadding) {
  const int classes = GetParam();
  const auto backend = testing::make_test_backend();
  const Graph plain = head(classes, 1), padded = head(classes, 64);
  ASSERT_NE(to_text(plain), to_text(padded));
  const auto want = sums_of(plain, classes, *backend), got = sums_of(padded, classes, *backend);
  ASSERT_EQ(want.size(), got.size());
  for (std::size_t p = 0; p < want.size(); ++p) {
    SCOPED_TRACE(plain.parameters()[p].name);
    ASSERT_EQ(want[p].size(), got[p].size());
    float largest = 0;
    for (const float value : want[p]) largest = std::max(largest, std::abs(value));
    // Sums may be taken in another order, and what is stored as bf16 rounds the other way then.
    // The loss moves by that of one label's logit at most, half a unit.
    const bool metric = plain.parameters()[p].kind == ParameterKind::metric;
    const float allowed = (metric ? 0x1p-9f : 0x1p-7f) * largest;
    for (std::size_t i = 0; i < want[p].size(); ++i)
      ASSERT_NEAR(got[p][i], want[p][i], allowed) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(ManyAndFew, PaddedLogits, ::testing::Values(1025, 65, 3));

}  // namespace
}  // namespace lockstep::test
