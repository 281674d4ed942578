// SPDX-License-Identifier: Apache-2.0
// The promise of the design's decision 3: the number of ranks does not change a bit. Every case is
// trained on all ranks of the program and again by one rank alone; the weights must be equal.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "lockstep/data/sources.h"
#include "lockstep/replica.h"
#include "lockstep/trainer.h"
#include "lockstep/training_feed.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/parallel/small_runs.h"
#include "tests/parallel/trained_alone.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

/// Two small conv-BN-ReLU stages with dropout: everything that could depend on ranks, in little.
Value small_convnet(Builder& nn, Value x) {
  for (int channels : {4, 8}) {
    x = nn.conv2d(x, {.out_channels = channels, .kernel = 3, .stride = 2, .padding = 1});
    x = nn.relu(nn.batch_norm(x));
  }
  x = nn.dropout(nn.max_pool2d(x), 0.25f);
  return nn.linear(nn.flatten(x), {.out_features = 10});
}

/// 4 micro-batches of 8 a step (the last of 6); the epoch's last batch has 20 samples, so that of
/// four ranks one is left without work.
TrainOptions base_options() {
  TrainOptions options{.global_batch = 30, .micro_batch = 8, .steps = 9};
  options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-3f};
  options.lr_schedule = {.kind = LrSchedule::Kind::cosine, .warmup_steps = 2};
  options.augmentation = data::parse_augmentation("shift,flip");
  options.bucket_mb = 0.001;
  options.log_every = 0;
  return options;
}

TrainSummary train(Communicator& communicator,
                   const TrainOptions& options,
                   const ModelFunction& model = small_convnet) {
  testing::DeviceContext context(communicator);
  Trainer trainer(context, model, softmax_cross_entropy, options);
  // 110 = 3 x 30 + 20 samples; 37 for validation: a tail there as well.
  return trainer.fit(data::glyphs(110, 37));
}

/// A small transformer's weights with each optimizer, trained by one rank alone.
std::vector<std::string> transformers_alone(testing::SmallRun run,
                                            const std::vector<Optimizer>& optimizers) {
  return testing::weights_alone(int(optimizers.size()), [&](int i, Communicator& self) {
    run.options.optimizer = optimizers[std::size_t(i)];
    return testing::train(run, self);
  });
}

void expect_equal_bits(const TrainOptions& options) {
  SelfCommunicator self;
  const TrainSummary alone = train(self, options);
  const TrainSummary together = train(testing::mpi_world(), options);
  EXPECT_EQ(together.weights_sha256, alone.weights_sha256);
  EXPECT_EQ(together.train_loss, alone.train_loss);
  EXPECT_EQ(together.val_loss, alone.val_loss);
  EXPECT_EQ(together.val_accuracy, alone.val_accuracy);
}

TEST(EqualBits, LocalBatchNormSgd) { expect_equal_bits(base_options()); }

// Gradients large enough for two levels, on two hosts of two ranks; the epoch's last batch, with a
// rank without work, goes the same way. Of 4 shards a host has one node of the tree, of 12 two.
TEST(EqualBits, RanksOnSeveralHosts) {
  if (testing::mpi_world().size() < 4) GTEST_SKIP() << "needs four ranks";
  const ModelFunction model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {64}});
  for (const int shards : {4, 12}) {
    TrainOptions options = base_options();
    options.shards = shards;
    if (shards > 4) options.micro_batch = 2;
    SelfCommunicator self;
    testing::Traffic traffic;
    testing::ClaimedHosts claimed(testing::mpi_world(), 2, traffic);
    const TrainSummary alone = train(self, options, model);
    const TrainSummary together = train(claimed, options, model);
    EXPECT_EQ(together.weights_sha256, alone.weights_sha256);
    EXPECT_GT(traffic.collectives_in_parts, 0);
  }
}

// A weight of 784 KiB, in 4 buckets; its norm counts for the noise scale before any of them is
// exchanged.
TEST(EqualBits, ATensorInSeveralBuckets) {
  const ModelFunction model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {256}});
  TrainOptions options = base_options();
  options.clip_norm = 0.5f;
  options.log_every = options.noise_scale_every = 1;
  SelfCommunicator self;
  const TrainSummary in_pieces = train(testing::mpi_world(), options, model);
  options.bucket_mb = 8;
  for (Communicator* world : {static_cast<Communicator*>(&self), &testing::mpi_world()}) {
    const TrainSummary whole = train(*world, options, model);
    EXPECT_EQ(in_pieces.weights_sha256, whole.weights_sha256);
    if (testing::mpi_world().rank() != 0) continue;
    EXPECT_EQ(in_pieces.format_noise_scale, whole.format_noise_scale);
  }
}

TEST(EqualBits, Bf16) {
  TrainOptions options = base_options();
  options.precision = Precision::bf16;
  expect_equal_bits(options);
}

TEST(EqualBits, GroupsInsideAMicroBatch) {
  TrainOptions options = base_options();
  options.batch_norm = BatchNormPolicy::parse("group:4");
  expect_equal_bits(options);
}

TEST(EqualBits, AdamwWithClipping) {
  TrainOptions options = base_options();
  options.optimizer = AdamW{.lr = 1e-3f};
  options.clip_norm = 0.5f;
  expect_equal_bits(options);
}

TEST(EqualBits, ClippedByValueAndByUnit) {
  const auto options = [](float TrainOptions::*clip) {
    TrainOptions result = base_options();
    if (clip != nullptr) result.*clip = 0.01f;
    return result;
  };
  float TrainOptions::*const clips[] = {
      nullptr, &TrainOptions::clip_value, &TrainOptions::clip_agc};
  // Each in small buckets, then in one.
  const std::vector<std::string> alone = testing::weights_alone(6, [&](int i, Communicator& self) {
    TrainOptions run = options(clips[i / 2]);
    if (i % 2 == 1) run.bucket_mb = 1;
    return train(self, run);
  });
  for (std::size_t i = 0; i < 6; i += 2) {
    EXPECT_EQ(train(testing::mpi_world(), options(clips[i / 2])).weights_sha256, alone[i]);
    EXPECT_EQ(alone[i + 1], alone[i]);
    EXPECT_NE(alone[(i + 2) % 6], alone[i]);
  }
}

// A power of two, so that the scaled rate is exact.
TEST(EqualBits, ScaledRatesAreRatesOfThatSize) {
  SelfCommunicator self;
  TrainOptions options = base_options();
  options.lr_schedule.kind = LrSchedule::Kind::cosine;
  options.optimizer = Sgd{.lr = 0.02f};
  options.lr_schedule.min_lr = 0.004f;
  const std::string expected = train(self, options).weights_sha256;
  options.optimizer = Sgd{.lr = 0.04f};
  options.lr_schedule.min_lr = 0.008f;
  options.lr_scaling.reference_batch = 2 * options.global_batch;
  EXPECT_EQ(train(testing::mpi_world(), options).weights_sha256, expected);
  options.lr_scaling.reference_batch = 4 * options.global_batch;
  EXPECT_NE(train(self, options).weights_sha256, expected);
  options.lr_scaling.rule = LrScaling::Rule::sqrt;
  EXPECT_EQ(train(self, options).weights_sha256, expected);
}

// Those of whole tensors as well, wherever buckets end.
TEST(EqualBits, EveryOptimizer) {
  const auto names = optimizer_names();
  const auto options = [&](std::size_t i) {
    TrainOptions result = base_options();
    result.optimizer = make_optimizer(names[i]);
    result.clip_norm = 0.5f;
    result.steps = 5;
    return result;
  };
  const std::vector<std::string> alone =
      testing::weights_alone(2 * int(names.size()), [&](int i, Communicator& self) {
        TrainOptions run = options(std::size_t(i / 2));
        if (i % 2 == 1) run.bucket_mb = 1;
        return train(self, run);
      });
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(train(testing::mpi_world(), options(i)).weights_sha256, alone[2 * i]) << names[i];
    EXPECT_EQ(alone[2 * i + 1], alone[2 * i]) << names[i];
  }
}

TEST(EqualBits, OptimizersOfATransformersMatrices) {
  const std::vector<Optimizer> optimizers = {
      Muon{.lr = 0.01f}, NorMuon{.lr = 0.01f}, Lamb{.lr = 0.01f}};
  testing::SmallRun run = testing::small_gpt();
  const std::vector<std::string> alone = transformers_alone(run, optimizers);
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    run.options.optimizer = optimizers[i];
    EXPECT_EQ(testing::train(run, testing::mpi_world()).weights_sha256, alone[i])
        << name_of(optimizers[i]);
  }
}

// Hosts of two ranks, or one of all where their number is odd, share a host's matrices out.
TEST(EqualBits, MatricesDealtWithinHosts) {
  const int ranks = testing::mpi_world().size(), per_host = ranks % 2 == 0 ? 2 : ranks;
  const std::vector<Optimizer> optimizers = {Muon{.lr = 0.01f}, NorMuon{.lr = 0.01f}};
  testing::SmallRun run = testing::small_gpt();
  const std::vector<std::string> alone = transformers_alone(run, optimizers);
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    run.options.optimizer = optimizers[i];
    testing::Traffic traffic;
    testing::ClaimedHosts claimed(testing::mpi_world(), per_host, traffic);
    for (const Sharding sharding : {Sharding::none, Sharding::optimizer}) {
      run.options.sharding = sharding;
      EXPECT_EQ(testing::train(run, claimed).weights_sha256, alone[i]) << name_of(optimizers[i]);
    }
  }
}

TEST(EqualBits, NesterovWithLoaderThreads) {
  TrainOptions options = base_options();
  options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f, .nesterov = true};
  options.workers = 2;
  expect_equal_bits(options);
}

TEST(EqualBits, FewerShardsThanMicroBatches) {
  TrainOptions options = base_options();
  options.micro_batch = 3;  // 10 micro-batches
  options.shards = 5;
  expect_equal_bits(options);
}

TEST(EqualBits, OverlapChangesNothing) {
  TrainOptions on = base_options(), off = base_options();
  off.overlap = Overlap::off;
  EXPECT_EQ(train(testing::mpi_world(), on).weights_sha256,
            train(testing::mpi_world(), off).weights_sha256);
}

TEST(EqualBits, AnotherSeedGivesOtherBits) {
  TrainOptions other = base_options();
  other.seed = 2;
  EXPECT_NE(train(testing::mpi_world(), base_options()).weights_sha256,
            train(testing::mpi_world(), other).weights_sha256);
}

// A group over two ranks: one cluster of two and two clusters of two give the same bits.
TEST(EqualBits, GroupOverTwoRanksOnTwoAndFourRanks) {
  Communicator& world = testing::mpi_world();
  if (world.size() != 4) GTEST_SKIP() << "needs 4 ranks";
  TrainOptions options = base_options();
  options.batch_norm = BatchNormPolicy::parse("group:16");
  const std::string four = train(world, options).weights_sha256;
  const auto half = world.split(world.rank() / 2, world.rank());
  EXPECT_EQ(train(*half, options).weights_sha256, four);
}

/// Samples of six numbers, each with five targets that are sums of two of them, or labels that say
/// which of these sums are above 0.
class Sums final : public data::Dataset {
 public:
  Sums(bool labels, std::int64_t size) : size_(size) {
    spec_.input = {Shape{kNumbers}, DType::f32};
    spec_.target = {Shape{kTargets}, DType::f32};
    spec_.multi_label = labels;
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void load(std::uint64_t, std::int64_t i, std::byte* input, std::byte* target) const override {
    auto* const x = reinterpret_cast<float*>(input);
    for (std::int64_t k = 0; k < kNumbers; ++k)
      x[k] = float((i * (2 * k + 3) + k * k) % 23) / 11 - 1;
    for (std::int64_t k = 0; k < kTargets; ++k) {
      const float sum = x[k] + x[k + 1];
      reinterpret_cast<float*>(target)[k] = spec_.multi_label ? float(sum > 0) : sum;
    }
  }
  std::string describe() const override { return "sums"; }
  std::uint64_t fingerprint() const override { return 1; }

  static constexpr std::int64_t kNumbers = 6, kTargets = 5;

 private:
  data::SampleSpec spec_;
  std::int64_t size_;
};

TrainSummary train_on_sums(Communicator& communicator, const LossFunction& loss, bool labels) {
  TrainOptions options = base_options();
  options.augmentation = {};
  options.optimizer = Sgd{.lr = 1, .momentum = 0.9f};
  options.steps = 80;
  const ModelFunction model = [](Builder& nn, Value x) {
    return nn.linear(x, {.out_features = Sums::kTargets});
  };
  testing::DeviceContext context(communicator);
  Trainer trainer(context, model, loss, options);
  return trainer.fit({std::make_shared<Sums>(labels, 110), std::make_shared<Sums>(labels, 37)});
}

TrainSummary expect_equal_bits_on_sums(const LossFunction& loss, bool labels) {
  SelfCommunicator self;
  const TrainSummary alone = train_on_sums(self, loss, labels);
  const TrainSummary together = train_on_sums(testing::mpi_world(), loss, labels);
  EXPECT_EQ(together.weights_sha256, alone.weights_sha256);
  EXPECT_EQ(together.train_loss, alone.train_loss);
  EXPECT_EQ(together.val_loss, alone.val_loss);
  EXPECT_EQ(together.val_accuracy, alone.val_accuracy);
  return alone;
}

// The model can give every target, so that the loss comes close to 0.
TEST(EqualBits, RegressionWithHuber) {
  const auto huber = [](Builder& nn, Value prediction, Value target) {
    return nn.huber_loss(prediction, target, 0.25f);
  };
  EXPECT_LT(expect_equal_bits_on_sums(huber, false).val_loss, 1e-3);
}

TEST(EqualBits, SeveralLabelsASample) {
  const TrainSummary summary = expect_equal_bits_on_sums(binary_cross_entropy_with_logits, true);
  EXPECT_GT(summary.val_accuracy, 0.9);
  EXPECT_LE(summary.val_accuracy, 1);
}

// A micro-batch sums the gradients of a category in the order of its samples, whichever rank has
// it.
TEST(EqualBits, EmbeddedColumns) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    testing::SmallRun run = testing::small_embedding();
    run.options.precision = precision;
    SelfCommunicator self;
    const TrainSummary alone = testing::train(run, self);
    const TrainSummary together = testing::train(run, testing::mpi_world());
    EXPECT_EQ(together.weights_sha256, alone.weights_sha256) << name_of(precision);
    EXPECT_EQ(together.train_loss, alone.train_loss);
    EXPECT_EQ(together.val_loss, alone.val_loss);
    EXPECT_EQ(together.val_accuracy, alone.val_accuracy);
  }
}

std::vector<io::NamedTensor> gradients_after_one_step(Communicator& communicator,
                                                      const TrainOptions& options) {
  testing::DeviceContext context(communicator);
  const data::DataSplit glyphs = data::glyphs(110, 37);
  Replica replica(context, small_convnet, softmax_cross_entropy, glyphs.train->spec(), options, {});
  const Schedule schedule = replica.schedule(options.global_batch);
  TrainingRequests requests({110, options.global_batch, 1, 1, schedule, schedule});
  data::Loader loader(glyphs.train,
                      {.workers = 0, .micro_batch = options.micro_batch},
                      [&](data::LoadRequest& request) { return requests.next(request); });
  replica.train_step(schedule, loader, 0, 0.0f);
  std::vector<io::NamedTensor> result = replica.gradients();
  for (io::NamedTensor& tensor : replica.weights())
    if (tensor.parameter.kind == ParameterKind::running_statistic)
      result.push_back(std::move(tensor));
  return result;
}

/// Largest difference of two tensors relative to the largest value.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max({largest, std::abs(double(a[i])), std::abs(double(b[i]))});
    difference = std::max(difference, std::abs(double(a[i]) - double(b[i])));
  }
  return largest == 0 ? 0 : difference / largest;
}

// One group over two ranks with micro-batches of 16 is the group of one rank with 32, up to the
// order of sums: n = 32 * 14 * 14 values in the longest one, two passes through the layers and
// back.
void expect_group_over_two_ranks_equals_one(const std::string& batch_norm) {
  Communicator& world = testing::mpi_world();
  if (world.size() != 2) GTEST_SKIP() << "needs 2 ranks";
  TrainOptions two{.global_batch = 32, .micro_batch = 16, .steps = 1};
  two.batch_norm = BatchNormPolicy::parse(batch_norm);
  TrainOptions one{.global_batch = 32, .micro_batch = 32, .steps = 1};
  SelfCommunicator self;
  const auto expected = gradients_after_one_step(self, one);
  const auto actual = gradients_after_one_step(world, two);
  ASSERT_EQ(actual.size(), expected.size());
  const double tolerance = 4 * std::numeric_limits<float>::epsilon() * std::sqrt(32.0 * 14 * 14);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::string& name = actual[i].parameter.name;
    // The bias before a batch norm has the gradient zero: rounding is all there is.
    if (name.starts_with("conv2d") && name.ends_with("bias")) continue;
    EXPECT_LT(relative_difference(actual[i].values, expected[i].values), tolerance) << name;
  }
}

TEST(BatchNormAcrossRanks, SyncEqualsOneRank) { expect_group_over_two_ranks_equals_one("sync"); }
TEST(BatchNormAcrossRanks, GroupEqualsOneRank) {
  expect_group_over_two_ranks_equals_one("group:32");
}

}  // namespace
}  // namespace lockstep
