// SPDX-License-Identifier: Apache-2.0
// Training on tokens: the same bits on any number of ranks, and means over the targets that count.
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "core/data/ignore_label.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::SmallRun;

void expect_equal_bits(const SmallRun& run) {
  SelfCommunicator self;
  const TrainSummary alone = testing::train(run, self);
  const TrainSummary together = testing::train(run, testing::mpi_world());
  EXPECT_EQ(together.weights_sha256, alone.weights_sha256);
  EXPECT_EQ(together.train_loss, alone.train_loss);
  EXPECT_EQ(together.val_loss, alone.val_loss);
}

TEST(TokenTraining, EqualBits) { expect_equal_bits(testing::small_gpt()); }

TEST(TokenTraining, EqualBitsWithIgnoredTokensAndClipping) {
  SmallRun run = testing::small_gpt(4);
  run.options.clip_norm = 0.5f;
  expect_equal_bits(run);
}

TEST(TokenTraining, EqualBitsInBf16) {
  SmallRun run = testing::small_gpt();
  run.options.precision = Precision::bf16;
  expect_equal_bits(run);
}

TEST(TokenTraining, EqualBitsOfALlama) {
  SmallRun run = testing::small_llama();
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    run.options.precision = precision;
    expect_equal_bits(run);
  }
}

/// `size` points in two dimensions of three classes.
class Points final : public data::Dataset {
 public:
  explicit Points(std::vector<std::int32_t> labels) : labels_(std::move(labels)) {
    spec_.input = {{2}, DType::f32};
    spec_.target = {{}, DType::i32};
    spec_.classes = 3;
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return std::int64_t(labels_.size()); }
  void load(std::uint64_t, std::int64_t index, std::byte* input, std::byte* target) const override {
    const std::int32_t label = labels_[std::size_t(index)];
    const float x[2] = {float(label) - 0.5f, 0.25f * float(label * label)};
    std::memcpy(input, x, sizeof x);
    std::memcpy(target, &label, sizeof label);
  }
  std::string describe() const override { return "points"; }
  std::uint64_t fingerprint() const override { return labels_.size(); }

 private:
  std::vector<std::int32_t> labels_;
  data::SampleSpec spec_;
};

std::vector<float> weights_after_a_step(const std::shared_ptr<const data::Dataset>& data,
                                        float clip_norm,
                                        double& loss) {
  testing::DeviceContext context(testing::mpi_world());
  TrainOptions options{.global_batch = data->size(), .micro_batch = 4, .steps = 1};
  options.optimizer = Sgd{.lr = 0.5f};
  options.clip_norm = clip_norm;
  const auto ignored = data->spec().ignore_index;
  const auto objective = [ignored](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, ignored);
  };
  const auto model = [](Builder& nn, Value x) { return nn.linear(x, {.out_features = 3}); };
  Trainer trainer(context, model, objective, options);
  loss = trainer.fit({data, nullptr}).train_loss;
  std::vector<float> values;
  for (const io::NamedTensor& tensor : trainer.weights())
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
  return values;
}

// 24 points of which 8 do not count train as the 16 others would alone: the loss and the gradient,
// clipped or not, are means over those that count. Each mean is a sum of 24 rounded summands.
TEST(IgnoredLabels, TrainAsIfTheyWereNotThere) {
  std::vector<std::int32_t> labels, counted;
  for (int i = 0; i < 24; ++i) labels.push_back(i % 3);
  for (const std::int32_t label : labels)
    if (label != 1) counted.push_back(label);
  const auto all = data::ignore_label(std::make_shared<Points>(labels), 1);
  for (const float clip : {0.0f, 0.05f}) {
    double loss = 0, expected_loss = 0;
    const std::vector<float> got = weights_after_a_step(all, clip, loss);
    const std::vector<float> expected =
        weights_after_a_step(std::make_shared<Points>(counted), clip, expected_loss);
    EXPECT_NEAR(loss, expected_loss, 4 * 0x1p-24 * std::sqrt(24.0) * 2);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 4 * 0x1p-24 * std::sqrt(24.0)) << "weight " << i;
  }
}

}  // namespace
}  // namespace lockstep
