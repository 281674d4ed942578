// SPDX-License-Identifier: Apache-2.0
#include "core/plan/hidden_matrices.h"

#include <gmock/gmock.h>

#include "core/plan/orthogonalize.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names_in(const Graph& graph) {
  std::vector<std::string> names;
  for (const int matrix : hidden_matrices(graph))
    names.push_back(graph.parameters()[std::size_t(matrix)].name);
  return names;
}

TEST(HiddenMatrices, AreWeightsOfAllLayersButTheLast) {
  const auto mlp = nn::make_model({.name = "mlp", .outputs = 3, .hidden = {16, 8}});
  const Graph graph = trace_classifier(mlp, {4}, 3, 2);
  const std::vector<std::string> names = names_in(graph);
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(graph.parameters()[std::size_t(hidden_matrices(graph)[1])].shape, (Shape{8, 16}));
  const auto convnet = nn::make_model({.name = "convnet", .outputs = 3});
  for (const std::string& name : names_in(trace_classifier(convnet, {28, 28, 1}, 3, 2)))
    EXPECT_THAT(name, ::testing::HasSubstr("weight"));
}

TEST(HiddenMatrices, LeaveOutTablesAndWhatIsTiedToThem) {
  const std::vector<std::string> block{"transformer.h.0.attn.c_attn.weight",
                                       "transformer.h.0.attn.c_proj.weight",
                                       "transformer.h.0.mlp.c_fc.weight",
                                       "transformer.h.0.mlp.c_proj.weight"};
  EXPECT_EQ(names_in(trace_gpt(true)), block);
  EXPECT_EQ(names_in(trace_gpt(false)), block);
}

std::vector<std::string> head_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const int i : head_parameters(graph))
    names.push_back(graph.parameters()[std::size_t(i)].name);
  return names;
}

TEST(HeadParameters, AreThoseOfTheLastLayer) {
  const auto mlp = nn::make_model({.name = "mlp", .outputs = 3, .hidden = {16}});
  const Graph graph = trace_classifier(mlp, {4}, 3, 2);
  const std::vector<std::string> head = head_names(graph);
  ASSERT_EQ(head.size(), 2u);
  EXPECT_EQ(graph.parameters()[std::size_t(head_parameters(graph)[0])].shape, (Shape{3, 16}));
  EXPECT_EQ(graph.parameters()[std::size_t(head_parameters(graph)[1])].shape, (Shape{3}));
  EXPECT_THAT(head_names(trace_gpt(true)), ElementsAre("transformer.wte.weight"));
  EXPECT_THAT(head_names(trace_gpt(false)), ElementsAre("lm_head.weight"));
}

TEST(HiddenMatrices, LeaveOutWhatIsFrozen) {
  const auto mlp = nn::make_model({.name = "mlp", .outputs = 3, .hidden = {16}});
  Graph graph = trace_classifier(mlp, {4}, 3, 2);
  graph.freeze(hidden_matrices(graph)[0]);
  EXPECT_THAT(names_in(graph), IsEmpty());
  EXPECT_FALSE(orthogonalization(graph).has_value());
}

TEST(HiddenMatrices, AConvolutionIsItsOutputsByAllElse) {
  EXPECT_EQ(as_matrix({32, 3, 5, 16}), (Shape{32, 240}));
  EXPECT_EQ(as_matrix({8, 4}), (Shape{8, 4}));
}

// Five iterations of three products for each, on the side with fewer rows.
TEST(Orthogonalization, HasThreeProductsAnIteration) {
  const auto mlp = nn::make_model({.name = "mlp", .outputs = 3, .hidden = {16}});
  const auto graph = orthogonalization(trace_classifier(mlp, {4}, 3, 2));
  ASSERT_TRUE(graph.has_value());
  int products = 0;
  for (const Node& node : graph->nodes()) {
    if (node.op->kind() != OpKind::matmul) continue;
    ++products;
    const Shape& shape = graph->value(node.outputs[0]).type.shape;
    EXPECT_TRUE(shape == (Shape{4, 4}) || shape == (Shape{16, 4})) << shape.to_string();
  }
  EXPECT_EQ(products, 15);
}

}  // namespace
}  // namespace lockstep
