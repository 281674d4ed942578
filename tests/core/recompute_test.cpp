// SPDX-License-Identifier: Apache-2.0
#include "core/plan/recompute.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "core/plan/program_plan.h"
#include "lockstep/zoo.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

Graph resnet(std::int64_t micro_batch = 16) {
  return trace_classifier(
      nn::make_model({.name = "resnet20", .dropout = 0.1f}), {32, 32, 3}, 10, micro_batch);
}

Graph gpt(int width) {
  data::SampleSpec spec;
  spec.input = {{64}, DType::i32};
  spec.target = {{64}, DType::i32};
  spec.classes = 65;
  BuilderSettings settings;
  settings.micro_batch = 4;
  return trace(nn::make_model({.name = "gpt",
                               .outputs = spec.classes,
                               .layers = 4,
                               .heads = 4,
                               .width = width,
                               .context = 64}),
               softmax_cross_entropy,
               spec,
               settings);
}

std::size_t arena_bytes(const Graph& graph) {
  const std::vector<std::size_t> workspace(graph.nodes().size(), 0);
  return plan_program(graph, lay_out(graph, 1 << 20), workspace).arena.bytes;
}

int count(const Graph& graph, OpKind kind, NodePhase phase) {
  return int(std::ranges::count_if(graph.nodes(), [&](const Node& node) {
    return node.op->kind() == kind && node.phase == phase;
  }));
}

/// As Recompute::all has it.
Graph recompute_all(const Graph& graph) {
  const auto choices = recompute_choices(graph);
  return recompute(graph, choices[index_of_all(choices)].dropped);
}

TEST(Recompute, WithoutDroppedValuesTheProgramIsTheSame) {
  const Graph graph = resnet();
  const Graph same = recompute(graph, std::vector<bool>(graph.values().size(), false));
  ASSERT_EQ(same.nodes().size(), graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    EXPECT_EQ(same.nodes()[i].op, graph.nodes()[i].op);
  EXPECT_EQ(arena_bytes(same), arena_bytes(graph));
}

TEST(Recompute, ChoicesCostMoreAndMoreAndEachProgramIsWellFormed) {
  const Graph graph = resnet();
  const auto choices = recompute_choices(graph);
  ASSERT_GE(choices.size(), 3u);
  EXPECT_EQ(choices[0].flops, 0);
  for (std::size_t i = 1; i < choices.size(); ++i) {
    EXPECT_GT(choices[i].flops, choices[i - 1].flops);
    const Graph changed = recompute(graph, choices[i].dropped);
    EXPECT_NO_THROW(verify(changed));
    EXPECT_LT(arena_bytes(changed), arena_bytes(graph)) << "choice " << i;
  }
}

// Its dearest operators alone cost more than everything between checkpoints.
TEST(Recompute, ChoicesOfANarrowGptAreInOrderOfCostAndAllIsTheOneWithCheckpoints) {
  const Graph graph = gpt(32);
  const auto choices = recompute_choices(graph);
  const std::size_t all = index_of_all(choices);
  ASSERT_LT(all + 1, choices.size());
  EXPECT_TRUE(choices[all].is_checkpoints);
  std::size_t least = SIZE_MAX;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(choices[i].is_checkpoints, i == all);
    least = std::min(least, arena_bytes(recompute(graph, choices[i].dropped)));
  }
  EXPECT_TRUE(std::ranges::is_sorted(choices, {}, &RecomputeChoice::flops));
  EXPECT_EQ(arena_bytes(recompute(graph, choices[all].dropped)), least);
}

TEST(Recompute, AllIsTheLastChoiceWhereNoCheckpointSavesMemory) {
  const Graph graph =
      trace_classifier(nn::make_model({.name = "mlp", .outputs = 10}), {28, 28, 1}, 10, 16);
  const auto choices = recompute_choices(graph);
  EXPECT_TRUE(std::ranges::none_of(choices, &RecomputeChoice::is_checkpoints));
  EXPECT_EQ(index_of_all(choices), choices.size() - 1);
  EXPECT_TRUE(std::ranges::is_sorted(choices, {}, &RecomputeChoice::flops));
}

TEST(Recompute, CheapChoicesRunNoConvolutionAgain) {
  const Graph graph = resnet();
  const auto choices = recompute_choices(graph);
  const Graph cheap = recompute(graph, choices[1].dropped);
  EXPECT_EQ(count(cheap, OpKind::conv2d, NodePhase::backward), 0);
  EXPECT_GT(count(cheap, OpKind::batch_norm_normalize, NodePhase::backward), 0);
  const Graph all = recompute_all(graph);
  EXPECT_GT(count(all, OpKind::conv2d, NodePhase::backward), 0);
}

TEST(Recompute, NothingIsSummedTwice) {
  const Graph graph = resnet();
  const Graph all = recompute_all(graph);
  std::vector<int> writers(graph.parameters().size(), 0);
  for (const ValueInfo& value : all.values())
    if (value.accumulates_into >= 0) ++writers[std::size_t(value.accumulates_into)];
  for (std::size_t i = 0; i < writers.size(); ++i)
    EXPECT_EQ(writers[i], 1) << graph.parameters()[i].name;
}

TEST(Recompute, DropoutKeepsThePathThatKeysItsNumbers) {
  const Graph graph = resnet();
  const Graph all = recompute_all(graph);
  for (const Node& node : all.nodes())
    EXPECT_TRUE(node.op->kind() != OpKind::dropout || node.path == "dropout1") << node.path;
}

// The segments between checkpoints grow with the square root of the depth, what is kept without
// recomputation grows with the depth itself.
TEST(Recompute, ADeepNetworkNeedsAFractionOfItsActivations) {
  const Graph graph = resnet(64);
  const Graph all = recompute_all(graph);
  EXPECT_LT(double(arena_bytes(all)), 0.5 * double(arena_bytes(graph)));
}

}  // namespace
}  // namespace lockstep
