// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "lockstep/trainer.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

/// A table and a net for runs of many short steps, in which numbers go wrong as a test has it.
namespace lockstep::testing {

inline constexpr std::int64_t kSamples = 64, kBatch = 32, kMicroBatch = 8, kFeatures = 4;

/// Four features and one of three classes, which depend on epoch and sample as `change` has it.
class SmallTable final : public data::Dataset {
 public:
  using Change = std::function<void(std::uint64_t epoch, std::int64_t sample, float* features)>;
  explicit SmallTable(Change change) : change_(std::move(change)) {
    spec_.input = {Shape{kFeatures}, DType::f32};
    spec_.target = {Shape{}, DType::i32};
    spec_.classes = 3;
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return kSamples; }
  void load(std::uint64_t epoch, std::int64_t i, std::byte* x, std::byte* y) const override {
    auto* features = reinterpret_cast<float*>(x);
    for (std::int64_t f = 0; f < kFeatures; ++f)
      features[f] = float((i * (f + 3) + f * f) % 17) / 8 - 1;
    *reinterpret_cast<std::int32_t*>(y) = std::int32_t(i % 3);
    if (change_) change_(epoch, i, features);
  }
  std::string describe() const override { return "small table"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  data::SampleSpec spec_;
  Change change_;
};

inline Value small_net(Builder& nn, Value x) {
  x = nn.relu(nn.linear(x, {.out_features = 8, .name = "fc1"}));
  return nn.linear(x, {.out_features = 3, .name = "fc2"});
}

inline TrainOptions small_options() {
  TrainOptions options{.global_batch = kBatch, .micro_batch = kMicroBatch, .steps = 4};
  options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f};
  options.log_every = 0;
  options.eval_every = 0;
  return options;
}

/// On rank 0.
class Notes final : public TrainObserver {
 public:
  void on_step(const StepRecord& record) override { noise_scales.push_back(record.noise_scale); }
  void on_skip(const SkipRecord& record) override { skips.push_back(record); }
  void on_rollback(const RollbackRecord& record) override { rollbacks.push_back(record); }
  std::vector<std::optional<double>> noise_scales;  // of logged steps
  std::vector<SkipRecord> skips;
  std::vector<RollbackRecord> rollbacks;
};

inline TrainSummary train(RankContext& context,
                          const SmallTable::Change& change,
                          const TrainOptions& options,
                          Notes* notes = nullptr,
                          const ModelFunction& model = small_net) {
  Trainer trainer(context, model, softmax_cross_entropy, options);
  if (notes) trainer.add_observer(*notes);
  return trainer.fit({std::make_shared<SmallTable>(change), nullptr});
}

inline TrainSummary train(Communicator& ranks,
                          const SmallTable::Change& change,
                          const TrainOptions& options,
                          Notes* notes = nullptr,
                          const ModelFunction& model = small_net) {
  DeviceContext context(ranks);
  return train(context, change, options, notes, model);
}

/// What fit() throws on this rank.
inline std::string error_of(const SmallTable::Change& change, const TrainOptions& options) {
  try {
    train(mpi_world(), change, options);
  } catch (const NonFiniteError& error) {
    EXPECT_EQ(int(error.exit_code()), 7);
    return error.what();
  }
  return "no error";
}

inline void expect_same_on_all_ranks(const std::string& text) {
  Communicator& world = mpi_world();
  std::array<char, 1024> first{};
  text.copy(first.data(), first.size() - 1);
  world.broadcast(first.data(), first.size(), 0);
  EXPECT_STREQ(first.data(), text.substr(0, first.size() - 1).c_str());
}

inline SmallTable::Change put(std::int64_t sample, float value) {
  return [=](std::uint64_t, std::int64_t i, float* features) {
    if (i == sample) features[2] = value;
  };
}

/// Ends a run that comes to `epoch`.
inline SmallTable::Change dies_in(int epoch, SmallTable::Change change) {
  return [=](std::uint64_t e, std::int64_t i, float* features) {
    change(e, i, features);
    LOCKSTEP_CHECK(int(e) != epoch, DataError, "the test ends the run here");
  };
}

}  // namespace lockstep::testing
