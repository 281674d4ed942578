// SPDX-License-Identifier: Apache-2.0
// Images that are mixed, classes that are drawn alike, and weights of classes: the same bits on any
// number of ranks. resume_test.cpp has mixed images too.
#include <gtest/gtest.h>
#include <memory>

#include "lockstep/error.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::SmallRun;

/// Micro-batches of 8, a step's last of 4; an epoch's last step has 9 images, one of them alone.
SmallRun mixing(const char* augmentation) {
  SmallRun run = testing::small_resnet();
  run.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {16}, .dropout = 0.1f});
  run.data = data::glyphs(65, 16);
  run.options.steps = 6;
  run.options.augmentation = data::parse_augmentation(augmentation);
  run.options.log_every = 0;
  return run;
}

std::string expect_equal_bits(const SmallRun& run) {
  SelfCommunicator self;
  const TrainSummary alone = testing::train(run, self);
  const TrainSummary together = testing::train(run, testing::mpi_world());
  EXPECT_EQ(together.weights_sha256, alone.weights_sha256);
  EXPECT_EQ(together.train_loss, alone.train_loss);
  EXPECT_EQ(together.val_loss, alone.val_loss);
  EXPECT_EQ(together.val_accuracy, alone.val_accuracy);
  return alone.weights_sha256;
}

TEST(MixedTraining, EqualBits) {
  std::string last = expect_equal_bits(mixing("flip"));
  for (const char* augmentation : {"flip,mixup:1", "cutmix", "mixup,cutmix"}) {
    const std::string hash = expect_equal_bits(mixing(augmentation));
    EXPECT_NE(hash, last) << augmentation;
    last = hash;
  }
}

TEST(MixedTraining, EqualBitsInBf16) {
  SmallRun run = mixing("mixup,cutmix");
  run.options.precision = Precision::bf16;
  expect_equal_bits(run);
}

TEST(MixedTraining, ValidationIsNotMixed) {
  SelfCommunicator self;
  SmallRun run = mixing("mixup,cutmix"), plain = mixing("none");
  run.options.optimizer = plain.options.optimizer = Sgd{.lr = 0};
  const TrainSummary mixed = testing::train(run, self), usual = testing::train(plain, self);
  EXPECT_EQ(mixed.val_loss, usual.val_loss);
  EXPECT_EQ(mixed.val_accuracy, usual.val_accuracy);
  EXPECT_NE(mixed.train_loss, usual.train_loss);
}

/// `images` whose labels are all 10, one too many.
class WrongLabels final : public data::Dataset {
 public:
  const data::SampleSpec& spec() const override { return images_->spec(); }
  std::int64_t size() const override { return images_->size(); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    images_->load(epoch, index, input, target);
    *reinterpret_cast<std::int32_t*>(target) = 10;
  }
  std::string describe() const override { return "wrong"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  std::shared_ptr<const data::Dataset> images_ = data::glyphs(60, 1).train;
};

template <typename E>
std::string error_of(const SmallRun& run) {
  SelfCommunicator self;
  try {
    testing::train(run, self);
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

TEST(MixedTraining, Refuses) {
  SmallRun run = mixing("mixup");
  run.data = {std::make_shared<WrongLabels>(), nullptr};
  EXPECT_EQ(error_of<DataError>(run), "data: label 10 is not one of the 10 classes, 0 to 9");
  run = mixing("mixup");
  run.options.micro_batch = 1;
  EXPECT_NE(error_of<ConfigError>(run).find("`micro_batch` must be 2 or more, got 1"),
            std::string::npos);
  run = testing::small_gpt();
  run.options.augmentation = data::parse_augmentation("cutmix");
  EXPECT_NE(error_of<ConfigError>(run).find("mixup and cutmix need one class a sample"),
            std::string::npos);
}

TEST(BalancedTraining, EqualBitsWithClassWeights) {
  SmallRun run = testing::small_embedding();
  const auto train_on = [&](Communicator& ranks) {
    testing::DeviceContext context(ranks);
    const auto loss = [](Builder& nn, Value logits, Value labels) {
      return nn.softmax_cross_entropy(logits, labels, 0.1f, {}, {0.5f, 1.5f, 2.0f});
    };
    return Trainer(context, run.model, loss, run.options).fit(run.data);
  };
  SelfCommunicator self;
  const std::string plain = testing::train(run, self).weights_sha256;
  const TrainSummary weighted = train_on(self);
  EXPECT_NE(weighted.weights_sha256, plain);
  const TrainSummary together = train_on(testing::mpi_world());
  EXPECT_EQ(together.weights_sha256, weighted.weights_sha256);
  EXPECT_EQ(together.val_accuracy, weighted.val_accuracy);
  run.data.train = data::balanced_classes(run.data.train, 5);
  const TrainSummary balanced = train_on(self);
  EXPECT_NE(balanced.weights_sha256, weighted.weights_sha256);
  EXPECT_EQ(train_on(testing::mpi_world()).weights_sha256, balanced.weights_sha256);
}

}  // namespace
}  // namespace lockstep
