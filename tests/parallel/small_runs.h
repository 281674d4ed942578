// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/data/sources.h"
#include "core/data/token_windows.h"
#include "core/nn/zoo.h"
#include "parallel/trainer.h"
#include "tests/support/device_context.h"

namespace lockstep::testing {

/// A model with data and options for a few steps, with dropout and short last micro-batches.
struct SmallRun {
  ModelFunction model;
  data::DataSplit data;
  TrainOptions options;
};

inline SmallRun small_resnet() {
  SmallRun run{nn::make_model({.name = "resnet20", .outputs = 10, .dropout = 0.1f}),
               data::glyphs(64, 16),
               {.global_batch = 28, .micro_batch = 8, .steps = 3}};
  run.options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f};
  return run;
}

/// With a tied head, biases, GELU, dropout in attention, and windows whose last targets or token
/// `ignored` do not count.
inline SmallRun small_gpt(std::optional<std::int32_t> ignored = {}) {
  std::vector<std::uint16_t> words;
  for (int i = 0; i < 2000; ++i) words.push_back(std::uint16_t(i * i % 31));
  const data::TokenSequence sequence =
      data::whole_sequence(data::tokens_in_memory(std::move(words)), "test", 31);
  SmallRun run{nn::make_model({.name = "gpt",
                               .outputs = 31,
                               .dropout = 0.1f,
                               .layers = 4,
                               .heads = 2,
                               .width = 32,
                               .context = 16}),
               {data::random_windows(sequence.part(0, 1900, "training"), 16, 1, ignored),
                data::windows_in_order(sequence.part(1900, 100, "validation"), 16, ignored)},
               {.global_batch = 10, .micro_batch = 3, .steps = 3}};
  run.options.optimizer = AdamW{};
  return run;
}

inline TrainSummary train(const SmallRun& run, RankContext& context) {
  const auto ignored = run.data.train->spec().ignore_index;
  const auto loss = [ignored](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, ignored);
  };
  return Trainer(context, run.model, loss, run.options).fit(run.data);
}

inline TrainSummary train(const SmallRun& run, Communicator& communicator) {
  DeviceContext context(communicator);
  return train(run, context);
}

}  // namespace lockstep::testing
