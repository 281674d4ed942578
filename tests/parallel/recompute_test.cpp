// SPDX-License-Identifier: Apache-2.0
// Training with activations computed again: the same bits, less memory, and the limit is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/sources.h"
#include "core/data/token_windows.h"
#include "core/nn/zoo.h"
#include "parallel/trainer.h"
#include "tests/support/cpu_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

struct Case {
  ModelFunction model;
  data::DataSplit data;
  TrainOptions options;
};

Case images() {
  Case c{nn::make_model({.name = "resnet20", .outputs = 10, .dropout = 0.1f}),
         data::glyphs(64, 16),
         {.global_batch = 28, .micro_batch = 8, .steps = 3}};
  c.options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f};
  return c;
}

Case tokens() {
  auto words = std::make_shared<std::vector<std::uint16_t>>();
  for (int i = 0; i < 2000; ++i) words->push_back(std::uint16_t(i * i % 31));
  const data::TokenSequence sequence{words, *words, "test", {}, 31, 1};
  Case c{nn::make_model({.name = "gpt",
                         .outputs = 31,
                         .dropout = 0.1f,
                         .layers = 4,
                         .heads = 2,
                         .width = 32,
                         .context = 16}),
         {data::random_windows(sequence, 16, 1, {}), nullptr},
         {.global_batch = 10, .micro_batch = 3, .steps = 3}};
  c.options.optimizer = Adamw{};
  return c;
}

TrainSummary train(Case c, Recompute recompute, std::uint64_t limit = 0) {
  c.options.recompute = recompute;
  c.options.memory_limit = limit;
  testing::CpuContext context(testing::mpi_world());
  const auto loss = [&](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, c.data.train->spec().ignore_index);
  };
  return Trainer(context, c.model, loss, c.options).fit(c.data);
}

class RecomputedTraining : public ::testing::TestWithParam<Case (*)()> {};

TEST_P(RecomputedTraining, GivesTheSameBitsWithLessMemory) {
  const TrainSummary none = train(GetParam()(), Recompute::none);
  const TrainSummary all = train(GetParam()(), Recompute::all);
  EXPECT_EQ(all.weights_sha256, none.weights_sha256);
  EXPECT_LT(all.activation_bytes, none.activation_bytes);
}

TEST_P(RecomputedTraining, AutoKeepsWhatFits) {
  const TrainSummary none = train(GetParam()(), Recompute::none);
  const TrainSummary ample = train(GetParam()(), Recompute::automatic, std::uint64_t{1} << 34);
  EXPECT_EQ(ample.activation_bytes, none.activation_bytes);
  const TrainSummary tight = train(GetParam()(), Recompute::automatic, none.planned_bytes - 1);
  EXPECT_LT(tight.planned_bytes, none.planned_bytes);
  EXPECT_EQ(tight.weights_sha256, none.weights_sha256);
}

TEST_P(RecomputedTraining, WhatCannotFitIsRefusedBeforeTheFirstStep) {
  EXPECT_THROW(train(GetParam()(), Recompute::none, 1000), OutOfMemory);
  EXPECT_THROW(train(GetParam()(), Recompute::automatic, 1000), OutOfMemory);
}

INSTANTIATE_TEST_SUITE_P(Models, RecomputedTraining, ::testing::Values(&images, &tokens));

}  // namespace
}  // namespace lockstep
