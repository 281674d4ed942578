// SPDX-License-Identifier: Apache-2.0
// The noise scale: its formula, and what it is made of, against gradients of shards that are
// computed one by one. The same bits on every number of ranks.
#include <gtest/gtest.h>
#include <numeric>
#include <utility>

#include "lockstep/data/sources.h"
#include "lockstep/replica.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/monitor/noise_watch.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/late_context.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSamples = 23, kMicroBatch = 5;  // shards of 5, 5, 5, 5 and 3

ModelFunction model() { return nn::make_model({.name = "mlp", .outputs = 10, .hidden = {12}}); }

Value loss(Builder& nn, Value logits, Value labels) {
  return nn.softmax_cross_entropy(logits, labels);
}

TrainOptions options_for(std::int64_t global_batch) {
  TrainOptions options{.global_batch = global_batch, .micro_batch = kMicroBatch, .steps = 1};
  options.optimizer = Sgd{.lr = 0.1f};
  options.noise_scale_every = 1;
  return options;
}

/// Samples `first` to `first + count - 1` of `data`, over and over, of which this rank has a part.
class Feed {
 public:
  Feed(const Schedule& schedule, std::int64_t first) {
    for (const ShardWork& shard : schedule.work)
      for (const MicroBatch& m : shard.micro_batches) {
        data::LoadRequest request;
        request.samples.resize(std::size_t(m.samples));
        std::iota(request.samples.begin(), request.samples.end(), first + m.first_sample);
        requests_.push_back(request);
      }
  }
  bool operator()(data::LoadRequest& request) {
    if (requests_.empty()) return false;
    request = requests_[next_++ % requests_.size()];
    return true;
  }

 private:
  std::vector<data::LoadRequest> requests_;
  std::size_t next_ = 0;
};

struct Gradient {
  std::vector<double> values;
  double squared() const {
    return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  }
};

/// The mean over those samples, computed by one rank at the start weights.
Gradient mean_gradient(std::int64_t first, std::int64_t count) {
  SelfCommunicator self;
  testing::DeviceContext context(self);
  const auto data = data::glyphs(64, 16).train;
  TrainOptions options = options_for(count);
  options.micro_batch = std::min(count, kMicroBatch);
  Replica replica(context, model(), loss, data->spec(), options, {count % kMicroBatch});
  const Schedule schedule = replica.schedule(count);
  data::Loader loader(data, {.workers = 0, .micro_batch = kMicroBatch}, Feed(schedule, first));
  replica.train_step(schedule, loader, 0, 0.1f);
  replica.finish_steps();
  Gradient gradient;
  for (const io::NamedTensor& tensor : replica.gradients())
    gradient.values.insert(gradient.values.end(), tensor.values.begin(), tensor.values.end());
  return gradient;
}

TEST(NoiseScale, IsMadeOfTheShardsOwnGradients) {
  testing::DeviceContext context(testing::mpi_world());
  const auto data = data::glyphs(64, 16).train;
  TrainOptions options = options_for(kSamples);
  Replica replica(context, model(), loss, data->spec(), options, {kSamples % kMicroBatch});
  const Schedule schedule = replica.schedule(kSamples);
  data::Loader loader(data, {.workers = 0, .micro_batch = kMicroBatch}, Feed(schedule, 7));
  NoiseWatch watch(context, ReplicaState::of(replica).parts.shard_norms);
  // At a rate of 0 the weights stay what they are.
  for (std::int64_t step = 0; step < NoiseScale::kMin; ++step) {
    EXPECT_FALSE(watch.scale().samples());
    for (const StepResult& result : replica.train_step(schedule, loader, step, 0.0f))
      watch.take(result);
    for (const StepResult& result : replica.finish_steps()) watch.take(result);
    watch.gather();
  }
  EXPECT_EQ(watch.scale().measurements(), NoiseScale::kMin);

  double shards = 0, squared_shares = 0;
  for (std::int64_t first = 0; first < kSamples; first += kMicroBatch) {
    const std::int64_t count = std::min(kMicroBatch, kSamples - first);
    const double share = double(count) / double(kSamples);
    shards += share * share * mean_gradient(7 + first, count).squared();
    squared_shares += share * share;
  }
  const double whole = mean_gradient(7, kSamples).squared();
  const double gradient = (whole - shards) / (1 - squared_shares);
  const double variance =
      double(kSamples) * (shards - squared_shares * whole) / (1 - squared_shares);
  // Each element of a gradient is a sum of kSamples products, each in fp32; both sides round. What
  // the difference of the two norms loses comes on top.
  const double relative = 8 * std::numeric_limits<float>::epsilon() * std::sqrt(double(kSamples));
  const double lost = std::max(whole, shards) / std::abs(whole - shards);
  EXPECT_NEAR(watch.scale().squared_gradient(), gradient, relative * lost * std::abs(gradient));
  EXPECT_NEAR(watch.scale().variance(), variance, relative * lost * variance);
}

/// Of each logged step, -1 where it is not known; on rank 0.
std::vector<double> noise_scales(RankContext& context,
                                 std::int64_t steps = 12,
                                 std::int64_t log_every = 1) {
  struct Observer : TrainObserver {
    void on_step(const StepRecord& r) override { scales.push_back(r.noise_scale.value_or(-1)); }
    std::vector<double> scales;
  } observer;
  TrainOptions options{.global_batch = 24, .micro_batch = 4, .steps = steps};
  options.optimizer = Sgd{.lr = 0.01f};
  options.bucket_mb = 0.001;  // several
  options.noise_scale_every = 1;
  options.log_every = log_every;
  Trainer trainer(context, model(), loss, options);
  trainer.add_observer(observer);
  // Batches of 24, 24 and 12, of which the whole ones are measured.
  const TrainSummary summary = trainer.fit(data::glyphs(60, 16));
  EXPECT_EQ(summary.format_noise_scale.substr(0, 6), "about ");
  return observer.scales;
}

TEST(NoiseScale, HasTheSameBitsOnOneRank) {
  SelfCommunicator self;
  testing::DeviceContext all(testing::mpi_world()), one(self);
  const std::vector<double> together = noise_scales(all);
  const std::vector<double> alone = noise_scales(one);
  if (testing::mpi_world().rank() != 0) return;
  EXPECT_EQ(together.size(), 12u);
  EXPECT_EQ(together[NoiseScale::kMin - 1], -1);
  EXPECT_GT(together.back(), 0);
  EXPECT_EQ(together, alone);
}

TEST(NoiseScale, HasTheSameBitsWhereNormsComeLate) {
  for (const std::int64_t log_every : {1, 7, 0}) {  // 0: where ShardNorms has no more place
    testing::DeviceContext at_once(testing::mpi_world());
    testing::LateContext late;
    const std::vector<double> want = noise_scales(at_once, 40, log_every);
    const std::vector<double> got = noise_scales(late, 40, log_every);
    EXPECT_EQ(got, want) << log_every;
    if (testing::mpi_world().rank() != 0) continue;
    EXPECT_GT(got.back(), 0);
  }
}

/// Forgets the first three of `steps` steps, of which no result was looked at. Returns what follows
/// from the others, each measured: |G|^2 and tr(S).
std::pair<double, double> scale_after_forgetting(RankContext& context, std::int64_t steps) {
  const auto data = data::glyphs(64, 16).train;
  const TrainOptions options = options_for(kSamples);
  Replica replica(context, model(), loss, data->spec(), options, {kSamples % kMicroBatch});
  const Schedule schedule = replica.schedule(kSamples);
  data::LoaderOptions loading{.workers = 0, .micro_batch = kMicroBatch};
  replica.lend_memory(loading);
  data::Loader loader(data, loading, Feed(schedule, 7));
  NoiseWatch watch(context, ReplicaState::of(replica).parts.shard_norms);
  for (std::int64_t step = 0; step < 3; ++step) replica.train_step(schedule, loader, step, 0.1f);
  watch.forget();
  replica.finish_steps();
  for (std::int64_t step = 3; step < steps; ++step)
    for (const StepResult& result : replica.train_step(schedule, loader, step, 0.1f))
      watch.take(result);
  for (const StepResult& result : replica.finish_steps()) watch.take(result);
  watch.gather();
  EXPECT_EQ(watch.scale().measurements(), steps - 3);
  return {watch.scale().squared_gradient(), watch.scale().variance()};
}

TEST(NoiseScale, ForgetsNormsThatAreUnderWay) {
  testing::DeviceContext at_once(testing::mpi_world());
  testing::LateContext late;
  const auto want = scale_after_forgetting(at_once, 15), got = scale_after_forgetting(late, 15);
  EXPECT_GT(want.second, 0);
  EXPECT_EQ(got, want);
}

/// Where ranks form a group for batch norm, a short batch has shards that are absent.
TEST(NoiseScale, LeavesShortBatchesOut) {
  const int ranks = testing::mpi_world().size();
  testing::DeviceContext context(testing::mpi_world());
  const auto convnet = nn::make_model({.name = "convnet", .outputs = 10});
  TrainOptions options{.global_batch = 4 * ranks, .micro_batch = 2, .steps = 9};
  options.optimizer = Sgd{.lr = 0.01f};
  options.batch_norm = {.kind = BatchNormPolicy::Kind::sync};
  options.noise_scale_every = 1;
  Trainer trainer(context, convnet, loss, options);
  // Each epoch ends with a batch of one micro-batch.
  const TrainSummary summary = trainer.fit(data::glyphs(8 * ranks + 2, 16));
  EXPECT_EQ(summary.steps, 9);
  EXPECT_NE(summary.format_noise_scale, "");
}

TEST(NoiseScaleEstimate, SaysNothingWithoutNoise) {
  NoiseScale scale;
  for (int i = 0; i < 10; ++i)
    scale.add({.whole = 1, .shards = 0.25, .squared_shares = 0.25, .samples = 32});
  EXPECT_FALSE(scale.samples());
}

TEST(NoiseScaleEstimate, FindsWhatTheExpectedNormsWereMadeOf) {
  const double gradient = 3.5, variance = 420;
  NoiseScale scale;
  for (int i = 0; i < 200; ++i) {
    const double samples = i % 2 == 0 ? 64 : 100, shares = i % 3 == 0 ? 0.25 : 0.3;
    scale.add({.whole = gradient + variance / samples,
               .shards = shares * gradient + variance / samples,
               .squared_shares = shares,
               .samples = std::int64_t(samples)});
  }
  ASSERT_TRUE(scale.samples());
  EXPECT_NEAR(*scale.samples(), variance / gradient, 1e-9 * variance / gradient);
}

TEST(NoiseScaleEstimate, SaysNothingOfAGradientThatIsLost) {
  NoiseScale scale;
  for (int i = 0; i < 10; ++i)
    scale.add({.whole = 1, .shards = 1.5, .squared_shares = 0.25, .samples = 32});
  EXPECT_FALSE(scale.samples());
}

TEST(NoiseScaleEstimate, WordsSayWhatOtherBatchesWouldCost) {
  const std::string words = format_noise_scale(256, 256, 0.1, 2);
  // Steps: (1 + 256/512) / 2 = 0.75; samples: (1 + 2) / 2 = 1.5. Half: 3 / 2 and 1.5 / 2.
  EXPECT_NE(words.find("512 would take 25% fewer steps and 50% more samples (`lr` 0.2"),
            std::string::npos)
      << words;
  EXPECT_NE(words.find("128 50% more steps and 25% fewer samples (`lr` 0.05"), std::string::npos)
      << words;
}

}  // namespace
}  // namespace lockstep
