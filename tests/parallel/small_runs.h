// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <optional>

#include "core/data/text/token_windows.h"
#include "lockstep/data/sources.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"
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

/// The same of a llama, whose heads share keys and values.
inline SmallRun small_llama() {
  SmallRun run = small_gpt();
  run.model = nn::make_model({.name = "llama",
                              .outputs = 31,
                              .dropout = 0.1f,
                              .layers = 4,
                              .heads = 4,
                              .width = 32,
                              .context = 16,
                              .kv_heads = 2});
  return run;
}

/// Rows of three numbers and two indices of categories, of which one of three classes depends.
class Towns final : public data::Dataset {
 public:
  explicit Towns(std::int64_t size) : size_(size) {
    spec_.input = {Shape{5}, DType::f32};
    spec_.target = {Shape{}, DType::i32};
    spec_.classes = 3;
    spec_.embedded = {{1, 300}, {4, 7}};
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void load(std::uint64_t, std::int64_t i, std::byte* input, std::byte* target) const override {
    const std::int64_t town = i * i % 300, month = i % 7;
    const float row[] = {float(i % 5) - 2, float(town), 1, float(i % 3) - 1, float(month)};
    std::memcpy(input, row, sizeof row);
    *reinterpret_cast<std::int32_t*>(target) = std::int32_t((town / 7 + month) % 3);
  }
  std::string describe() const override { return "towns"; }
  std::uint64_t fingerprint() const override { return 3; }

 private:
  data::SampleSpec spec_;
  std::int64_t size_;
};

inline SmallRun small_embedding() {
  SmallRun run{nn::make_model({.name = "mlp", .outputs = 3, .hidden = {16}, .dropout = 0.1f}),
               {std::make_shared<Towns>(110), std::make_shared<Towns>(37)},
               {.global_batch = 30, .micro_batch = 8, .steps = 9}};
  run.options.optimizer = Sgd{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 1e-3f};
  run.options.log_every = 0;
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
