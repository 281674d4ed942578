// SPDX-License-Identifier: Apache-2.0
// Models of data that have embedded columns: what they declare, refuse and compute with.
#include "core/ops/embedding/column_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/data/embedded_column.h"
#include "core/nn/initialise.h"
#include "core/nn/trace.h"
#include "lockstep/error.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Six features, of which the second and the fifth are embedded.
data::SampleSpec samples() {
  data::SampleSpec spec;
  spec.input = {{6}, DType::f32};
  spec.target = {{2}, DType::f32};
  spec.embedded = {{1, 100}, {4, 1000}};
  return spec;
}

Graph traced(const ModelFunction& model,
             const data::SampleSpec& spec = samples(),
             const BuilderSettings& settings = {}) {
  BuilderSettings with_batch = settings;
  with_batch.micro_batch = 3;
  return trace(model, mean_squared_error, spec, with_batch);
}

template <class ErrorType>
std::string refusal(const ModelFunction& model, const data::SampleSpec& spec = samples()) {
  try {
    traced(model, spec);
  } catch (const ErrorType& error) {
    return std::string(error.what()) + " hint: " + error.hint();
  }
  return "no error";
}

ModelFunction mlp() { return nn::make_model({.name = "mlp", .outputs = 2, .hidden = {8}}); }

Value embed_and_sum(Builder& nn, Value x) {
  return nn.linear(nn.column_embedding(x), {.out_features = 2});
}

std::vector<const Node*> nodes_of(const Graph& graph, OpKind kind) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes())
    if (node.op->kind() == kind) found.push_back(&node);
  return found;
}

std::vector<std::string> trained_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Parameter& p : graph.parameters())
    if (p.kind == ParameterKind::trained)
      names.push_back(fmt::format("{} {}", p.name, p.file_layout.file.to_string()));
  return names;
}

// fast.ai's rule, rounded by hand.
TEST(EmbeddingWidth, IsFastAisRule) {
  EXPECT_EQ(embedding_width(1), 2);
  EXPECT_EQ(embedding_width(32), 11);
  EXPECT_EQ(embedding_width(100), 21);
  EXPECT_EQ(embedding_width(1000), 77);
  EXPECT_EQ(embedding_width(100000000), 600);
}

TEST(ColumnEmbeddingModel, MlpBeginsWithTheTablesInColumnOrder) {
  EXPECT_THAT(trained_names(traced(mlp())),
              ElementsAre("embeddings.0.weight [100, 21]",
                          "embeddings.1.weight [1000, 77]",
                          "0.weight [8, 102]",  // 6 - 2 + 21 + 77
                          "0.bias [8]",
                          "2.weight [2, 8]",
                          "2.bias [2]"));
  data::SampleSpec plain = samples();
  plain.embedded.clear();
  EXPECT_THAT(trained_names(traced(mlp(), plain)),
              ElementsAre("0.weight [8, 6]", "0.bias [8]", "2.weight [2, 8]", "2.bias [2]"));
}

TEST(ColumnEmbeddingModel, TablesStartAsPyTorchs) {
  const Graph graph = traced(mlp());
  const std::vector<float> values = initial_values(graph.parameters()[1], 1);
  double squares = 0;
  for (const float value : values) squares += double(value) * value;
  // The deviation of n draws is itself off by 1 / sqrt(2 n).
  const double n = double(values.size());
  EXPECT_NEAR(std::sqrt(squares / n), 1, 5 / std::sqrt(2 * n));
}

TEST(ColumnEmbeddingModel, WidthsAndNamesAreTheModels) {
  const ModelFunction model = [](Builder& nn, Value x) {
    EXPECT_EQ(nn.embedded_columns().size(), 2u);
    const Builder::Scope scope = nn.scope("net");
    return nn.linear(nn.column_embedding(x, {.widths = {3, 5}, .name = "tables"}),
                     {.out_features = 2, .bias = false, .name = "out"});
  };
  EXPECT_THAT(trained_names(traced(model)),
              ElementsAre("net.tables.0.weight [100, 3]",
                          "net.tables.1.weight [1000, 5]",
                          "net.out.weight [2, 12]"));
  EXPECT_THAT(refusal<ConfigError>([](Builder& nn, Value x) {
                return nn.linear(nn.column_embedding(x, {.widths = {3}}), {.out_features = 2});
              }),
              HasSubstr("expected 2 widths"));
}

TEST(ColumnEmbeddingModel, FrozenTablesHaveNoBackward) {
  const Graph graph = traced(mlp(), samples(), {.freeze = {"embeddings.0"}});
  const auto backward = nodes_of(graph, OpKind::column_embedding_bwd);
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_EQ(op_cast<ops::ColumnEmbeddingBwd>(*backward[0]->op).feature(), 4);
  EXPECT_EQ(op_cast<ops::ColumnEmbeddingBwd>(*backward[0]->op).offset(), 1 + 21 + 2);
}

// bf16 holds no whole number above 256 exactly: indices have to come as f32, whatever else reads
// the input.
TEST(ColumnEmbeddingModel, IndicesStayF32UnderBf16) {
  const ModelFunction before = [](Builder& nn, Value x) {
    const Value plain = nn.linear(x, {.out_features = 2});
    return nn.add(plain, embed_and_sum(nn, x));
  };
  const ModelFunction after = [](Builder& nn, Value x) {
    const Value embedded = embed_and_sum(nn, x);
    return nn.add(embedded, nn.linear(x, {.out_features = 2}));
  };
  for (const ModelFunction& model : {mlp(), before, after}) {
    const Graph graph = traced(model, samples(), {.precision = Precision::bf16});
    const auto forward = nodes_of(graph, OpKind::column_embedding);
    ASSERT_EQ(forward.size(), 1u);
    EXPECT_EQ(graph.value(forward[0]->inputs[0]).role, ValueRole::input);
    EXPECT_EQ(graph.value(forward[0]->inputs[0]).type.dtype, DType::f32);
    EXPECT_EQ(graph.value(forward[0]->outputs[0]).type.dtype, DType::bf16);
    for (const Node* backward : nodes_of(graph, OpKind::column_embedding_bwd)) {
      EXPECT_EQ(graph.value(backward->inputs[0]).role, ValueRole::input);
      EXPECT_EQ(graph.value(backward->inputs[1]).type.dtype, DType::bf16);
      EXPECT_EQ(graph.value(backward->outputs[0]).type.dtype, DType::f32);
    }
    for (const Node* linear : nodes_of(graph, OpKind::linear))
      EXPECT_EQ(graph.value(linear->inputs[0]).type.dtype, DType::bf16);
  }
}

TEST(ColumnEmbeddingModel, ModelsThatTakeNoTablesRefuseByName) {
  for (const std::string_view name : nn::model_names()) {
    if (name == "mlp") continue;
    EXPECT_THAT(
        refusal<ConfigError>(nn::make_model({.name = std::string(name), .outputs = 2})),
        AllOf(HasSubstr(fmt::format("model: {} takes no tables with embedded columns", name)),
              HasSubstr("mlp does")));
  }
}

TEST(ColumnEmbeddingModel, AModelHasToEmbedWhatIsEmbedded) {
  EXPECT_THAT(
      refusal<ConfigError>([](Builder& nn, Value x) { return nn.linear(x, {.out_features = 2}); }),
      AllOf(HasSubstr("feature 1 of the data is the index of one of 100 categories"),
            HasSubstr("nn.column_embedding(x)")));
  EXPECT_THAT(
      refusal<ConfigError>([](Builder& nn, Value x) { return embed_and_sum(nn, nn.scale(x, 2)); }),
      HasSubstr("column_embedding: expected the model's input"));
  EXPECT_EQ(refusal<ConfigError>(embed_and_sum), "no error");
}

TEST(ColumnEmbeddingModel, ColumnsThatTheSamplesDoNotHaveAreRefused) {
  const auto with = [](std::vector<data::EmbeddedColumn> columns) {
    data::SampleSpec spec = samples();
    spec.embedded = std::move(columns);
    return refusal<ConfigError>(embed_and_sum, spec);
  };
  EXPECT_EQ(with({{0, 1}, {5, 3}}), "no error");
  EXPECT_THAT(with({{6, 3}}), HasSubstr("got feature 6"));
  EXPECT_THAT(with({{-1, 3}}), HasSubstr("got feature -1"));
  EXPECT_THAT(with({{2, 3}, {2, 3}}), HasSubstr("each once; got feature 2"));
  EXPECT_THAT(with({{2, 0}}), HasSubstr("feature 2 must have 1 to"));
  EXPECT_THAT(with({{2, data::kMaxEmbeddedCategories + 1}}), HasSubstr("feature 2 must have 1 to"));
  data::SampleSpec scaled = samples();
  scaled.scale = scaled.shift = {2};
  EXPECT_THAT(refusal<ConfigError>(embed_and_sum, scaled), HasSubstr("without scale and shift"));
  data::SampleSpec images = samples();
  images.input = {{4, 4, 3}, DType::u8};
  EXPECT_THAT(refusal<ConfigError>(embed_and_sum, images), HasSubstr("u8[4, 4, 3]"));
}

}  // namespace
}  // namespace lockstep
