// SPDX-License-Identifier: Apache-2.0
// Steps whose loss or gradients are not finite, and losses that jump, on several ranks: who is to
// blame is said, and what follows is the same everywhere.
#include <array>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/sampler.h"
#include "parallel/replica.h"
#include "parallel/training_feed.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::SharedFolder;

constexpr std::int64_t kSamples = 64, kBatch = 32, kMicroBatch = 8, kFeatures = 4;

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

Value small_net(Builder& nn, Value x) {
  x = nn.relu(nn.linear(x, {.out_features = 8, .name = "fc1"}));
  return nn.linear(x, {.out_features = 3, .name = "fc2"});
}

TrainOptions small_options() {
  TrainOptions options{.global_batch = kBatch, .micro_batch = kMicroBatch, .steps = 4};
  options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f};
  options.log_every = 0;
  options.eval_every = 0;
  return options;
}

/// On rank 0.
class Notes final : public TrainObserver {
 public:
  void on_skip(const SkipRecord& record) override { skips.push_back(record); }
  void on_rollback(const RollbackRecord& record) override { rollbacks.push_back(record); }
  std::vector<SkipRecord> skips;
  std::vector<RollbackRecord> rollbacks;
};

TrainSummary train(Communicator& ranks,
                   const SmallTable::Change& change,
                   const TrainOptions& options,
                   Notes* notes = nullptr,
                   const ModelFunction& model = small_net) {
  testing::DeviceContext context(ranks);
  Trainer trainer(context, model, softmax_cross_entropy, options);
  if (notes) trainer.add_observer(*notes);
  return trainer.fit({std::make_shared<SmallTable>(change), nullptr});
}

/// What fit() throws on this rank.
std::string error_of(const SmallTable::Change& change, const TrainOptions& options) {
  try {
    train(testing::mpi_world(), change, options);
  } catch (const NonFiniteError& error) {
    EXPECT_EQ(int(error.exit_code()), 7);
    return error.what();
  }
  return "no error";
}

void expect_same_on_all_ranks(const std::string& text) {
  Communicator& world = testing::mpi_world();
  std::array<char, 1024> first{};
  text.copy(first.data(), first.size() - 1);
  world.broadcast(first.data(), first.size(), 0);
  EXPECT_STREQ(first.data(), text.substr(0, first.size() - 1).c_str());
}

/// Where sample `sample` is in epoch 0.
struct Place {
  std::int64_t step = 0, micro_batch = 0;
  int rank = 0;
};

Place place_of(std::int64_t sample, const TrainOptions& options) {
  data::Sampler sampler(kSamples, options.seed, true);
  const std::int64_t* order = sampler.range(0, 0, kSamples);
  const std::int64_t at = std::find(order, order + kSamples, sample) - order;
  Place place{.step = at / kBatch, .micro_batch = at % kBatch / kMicroBatch};
  const int ranks = testing::mpi_world().size();
  const BatchPlan plan = plan_batch(options, ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (const ShardWork& shard :
         make_schedule(
             {.samples = kBatch, .micro_batch = kMicroBatch, .shards = plan.shards, .ranks = ranks},
             rank)
             .work)
      for (const MicroBatch& micro_batch : shard.micro_batches)
        if (micro_batch.first_sample / kMicroBatch == place.micro_batch) place.rank = rank;
  return place;
}

SmallTable::Change put(std::int64_t sample, float value) {
  return [=](std::uint64_t, std::int64_t i, float* features) {
    if (i == sample) features[2] = value;
  };
}

TEST(NonFinite, DataIsBlamedWithItsRankAndMicroBatch) {
  for (const std::int64_t sample : {3, 17, 40, 63}) {
    const TrainOptions options = small_options();
    const std::string error =
        error_of(put(sample, std::numeric_limits<float>::infinity()), options);
    const Place place = place_of(sample, options);
    EXPECT_THAT(error, HasSubstr(fmt::format("training: the loss of step {} is ", place.step + 1)));
    EXPECT_THAT(error, HasSubstr(fmt::format(": first found on rank {} (", place.rank)));
    EXPECT_THAT(
        error,
        HasSubstr(fmt::format(") in micro-batch {} of 4: data, 1 of 32 elements, the first (",
                              place.micro_batch + 1)));
    EXPECT_THAT(error, HasSubstr(") is inf"));
    expect_same_on_all_ranks(error);
  }
}

TEST(NonFinite, TheFirstOperatorIsBlamed) {
  const TrainOptions options = small_options();
  const std::string error = error_of(put(5, 3e38f), options);
  const Place place = place_of(5, options);
  // 3e38 is finite; behind weights of fc1 below 0.5, fc2's gradient or output is not.
  EXPECT_THAT(error, HasSubstr(fmt::format("first found on rank {} (", place.rank)));
  EXPECT_THAT(error, HasSubstr(fmt::format("in micro-batch {} of 4: ", place.micro_batch + 1)));
  EXPECT_THAT(error, HasSubstr(" fc"));
  EXPECT_THAT(error, HasSubstr(", output 0, "));
  expect_same_on_all_ranks(error);
}

/// x = 1e30, target = 1e10: behind weights of about 1e-30 the loss is about 1e20, but its gradient
/// 2 (p - t) x is beyond fp32.
class SteepData final : public data::Dataset {
 public:
  SteepData() {
    spec_.input = {Shape{4}, DType::f32};
    spec_.target = {Shape{1}, DType::f32};
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return kSamples; }
  void load(std::uint64_t, std::int64_t, std::byte* input, std::byte* target) const override {
    std::fill_n(reinterpret_cast<float*>(input), 4, 1e30f);
    *reinterpret_cast<float*>(target) = 1e10f;
  }
  std::string describe() const override { return "steep"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  data::SampleSpec spec_;
};

TEST(NonFinite, ABackwardOperatorIsBlamed) {
  testing::DeviceContext context(testing::mpi_world());
  const auto model = [](Builder& nn, Value x) {
    return nn.linear(x, {.out_features = 1, .normal_init = 1e-30f, .name = "head"});
  };
  try {
    Trainer(context, model, mean_squared_error, small_options())
        .fit({std::make_shared<SteepData>(), nullptr});
    FAIL() << "no error";
  } catch (const NonFiniteError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("the gradient norm of step 1 is inf: first found on rank 0"));
    EXPECT_THAT(error.what(), HasSubstr(" head (backward), output "));
    const int ranks = testing::mpi_world().size();
    if (ranks > 1) {
      EXPECT_THAT(error.what(), HasSubstr("; also on rank 1 ("));
    }
    if (ranks > 3) {
      EXPECT_THAT(error.what(), HasSubstr(", and on 1 more"));
    }
    expect_same_on_all_ranks(error.what());
  }
}

/// Ranks whose batch norms are one infect each other before anybody has done with the operator.
TEST(NonFinite, TheCauseIsToldFromTheInfected) {
  TrainOptions options = small_options();
  options.batch_norm = BatchNormPolicy::parse("sync");
  const auto model = [](Builder& nn, Value x) {
    return nn.linear(
        nn.batch_norm(nn.linear(x, {.out_features = 8, .name = "fc1"}), {.name = "bn"}),
        {.out_features = 3, .name = "fc2"});
  };
  const int ranks = testing::mpi_world().size();
  for (const std::int64_t sample : {3, 17, 40, 63}) {
    try {
      train(testing::mpi_world(),
            put(sample, std::numeric_limits<float>::quiet_NaN()),
            options,
            nullptr,
            model);
      ADD_FAILURE() << "no error";
    } catch (const NonFiniteError& error) {
      EXPECT_THAT(error.what(), HasSubstr(": data, 1 of 32 elements"));
      const std::string text = error.what();
      EXPECT_LT(text.find("data, 1 of 32"), text.find("; also on"));
      if (ranks > 1) {
        EXPECT_THAT(text, HasSubstr("; also on rank"));
      }
      expect_same_on_all_ranks(text);
    }
  }
}

/// Of one step, which trains nothing.
std::vector<NonFiniteFinding> search(const testing::SmallRun& run, Communicator& ranks) {
  testing::DeviceContext context(ranks);
  const auto ignored = run.data.train->spec().ignore_index;
  const auto loss = [ignored](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, ignored);
  };
  const TrainOptions& o = run.options;
  Replica replica(
      context, run.model, loss, run.data.train->spec(), o, {o.global_batch % o.micro_batch});
  const Schedule schedule = replica.schedule(o.global_batch);
  TrainingFeed feed(run.data.train->size(), o.global_batch, 1, o.seed, schedule, schedule);
  data::Loader loader(run.data.train,
                      {.workers = 0, .micro_batch = o.micro_batch},
                      [&](data::LoadRequest& r) { return feed.next(r); });
  return replica.find_nonfinite(schedule, loader, 0);
}

TEST(NonFinite, HealthyNetsAreLeftAlone) {
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (testing::SmallRun run :
         {testing::small_resnet(), testing::small_gpt(), testing::small_gpt(7)}) {
      run.options.precision = precision;
      const auto findings = search(run, testing::mpi_world());
      EXPECT_TRUE(findings.empty()) << to_text(findings, 4);
      run.options.recompute = Recompute::all;
      run.options.fuse = false;
      EXPECT_TRUE(search(run, testing::mpi_world()).empty());
    }
}

TEST(Skip, LeavesNoTrace) {
  TrainOptions options = small_options();
  options.steps = 7;
  options.clip_norm = 0.5f;
  options.on_nonfinite = OnNonfinite::skip;
  constexpr std::int64_t kBad = 17;
  const auto poison = [](std::uint64_t epoch, std::int64_t i, float* features) {
    if (i == kBad && epoch < 2) features[2] = std::numeric_limits<float>::infinity();
  };
  Notes notes;
  const TrainSummary summary = train(testing::mpi_world(), poison, options, &notes);
  EXPECT_EQ(summary.steps, 7);
  EXPECT_EQ(summary.skipped_steps, 2);
  EXPECT_TRUE(std::isfinite(summary.train_loss));
  if (testing::mpi_world().rank() == 0) {
    ASSERT_EQ(notes.skips.size(), 2u);
    EXPECT_EQ(notes.skips[0].step, place_of(kBad, options).step + 1);
    EXPECT_THAT(notes.skips[0].cause, HasSubstr("data, 1 of 32 elements"));
  }

  // The same steps, those two left out by hand, on this rank alone.
  std::vector<std::int64_t> bad;
  data::Sampler sampler(kSamples, options.seed, true);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    const std::int64_t* order = sampler.range(epoch, 0, kSamples);
    bad.push_back(std::int64_t(epoch) * 2 +
                  (std::find(order, order + kSamples, kBad) - order) / kBatch);
  }
  const auto alone = testing::mpi_world().split(testing::mpi_world().rank(), 0);
  testing::DeviceContext context(*alone);
  const auto data = std::make_shared<SmallTable>(poison);
  Replica replica(context, small_net, softmax_cross_entropy, data->spec(), options, {});
  const Schedule schedule = replica.schedule(kBatch);
  const TrainingFeed feed(kSamples, kBatch, options.steps, options.seed, schedule, schedule);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    if (std::ranges::find(bad, step) != bad.end()) continue;
    TrainingFeed requests = feed.from(step);
    data::Loader loader(data,
                        {.workers = 0, .micro_batch = kMicroBatch},
                        [&](data::LoadRequest& r) { return requests.next(r); });
    replica.train_step(schedule, loader, step, 0.05f);
  }
  EXPECT_EQ(io::weights_sha256(replica.weights()), summary.weights_sha256);
}

TEST(Skip, TooManyInARowStop) {
  TrainOptions options = small_options();
  options.on_nonfinite = OnNonfinite::skip;
  options.optimizer = Sgd{.lr = 1e30f};
  options.steps = 60;
  const std::string error = error_of({}, options);
  EXPECT_THAT(error, HasSubstr("21 steps in a row were not finite, the last: the "));
  expect_same_on_all_ranks(error);
}

/// Ends a run that comes to `epoch`.
SmallTable::Change dies_in(int epoch, SmallTable::Change change) {
  return [=](std::uint64_t e, std::int64_t i, float* features) {
    change(e, i, features);
    LOCKSTEP_CHECK(int(e) != epoch, DataError, "the test ends the run here");
  };
}

TEST(Skip, IsCountedBeyondAnInterruption) {
  const SharedFolder folder;
  TrainOptions options = small_options();
  options.on_nonfinite = OnNonfinite::skip;
  options.steps = 8;
  const auto poison = put(17, std::numeric_limits<float>::quiet_NaN());
  const TrainSummary whole = train(testing::mpi_world(), poison, options);
  EXPECT_EQ(whole.skipped_steps, 4) << "one of each epoch's two steps";
  options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 5};
  const int rank = testing::mpi_world().rank();
  const auto alone = testing::mpi_world().split(rank, 0);
  if (rank == 0) {
    EXPECT_THROW(train(*alone, dies_in(3, poison), options), DataError);
  }
  testing::mpi_world().barrier();
  options.checkpoint.resume = "auto";
  const TrainSummary resumed = train(testing::mpi_world(), poison, options);
  EXPECT_EQ(resumed.resumed_at, 5);
  EXPECT_EQ(resumed.skipped_steps, 4);
  EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256);
}

constexpr std::uint64_t kSpikeEpoch = 30;

TrainOptions rollback_options(const std::string& folder) {
  TrainOptions options = small_options();
  options.steps = 100;
  options.on_spike = OnSpike::rollback;
  options.checkpoint = {.folder = folder, .every_steps = 25, .keep = 2};
  return options;
}

/// One batch of epoch kSpikeEpoch is as if its first sample had been misread.
void misread(std::uint64_t epoch, std::int64_t i, float* features) {
  if (epoch == kSpikeEpoch && i == 9) features[0] = 1e6f;
}

TEST(Rollback, GoesBackAndLeavesTheBatchesOut) {
  const SharedFolder folder;
  const TrainOptions options = rollback_options(folder / "all");
  Notes notes;
  const TrainSummary summary = train(testing::mpi_world(), misread, options, &notes);
  EXPECT_EQ(summary.steps, 100);
  EXPECT_EQ(summary.rollbacks, 1);
  EXPECT_EQ(summary.samples, 100 * kBatch);
  EXPECT_LT(summary.train_loss, 2);
  if (testing::mpi_world().rank() == 0) {
    ASSERT_EQ(notes.rollbacks.size(), 1u);
    const RollbackRecord& record = notes.rollbacks[0];
    EXPECT_EQ(record.step, 50);
    EXPECT_THAT(record.spike_step, ::testing::AnyOf(61, 62));
    EXPECT_GT(record.loss, 100 * record.mean);
    EXPECT_EQ(record.left_out, (io::BatchRange{50, record.spike_step}));
  }
  testing::mpi_world().barrier();  // rank 0 saves behind the last collective
  const io::CheckpointState state =
      io::verify_checkpoint(folder / "all/" + io::checkpoint_name(100));
  EXPECT_EQ(state.left_out.size(), 1u);
  EXPECT_EQ(state.rollbacks, 1);

  const auto alone = testing::mpi_world().split(testing::mpi_world().rank(), 0);
  const std::string own = folder / fmt::format("alone_{}", testing::mpi_world().rank());
  const TrainSummary single = train(*alone, misread, rollback_options(own));
  EXPECT_EQ(single.weights_sha256, summary.weights_sha256);
  TrainOptions ignoring = rollback_options(own + "_ignoring");
  ignoring.on_spike = OnSpike::ignore;
  EXPECT_NE(train(*alone, misread, ignoring).weights_sha256, summary.weights_sha256);
}

TEST(Rollback, ARunThatIsKilledBeforeOrBehindItEndsWithTheSameBits) {
  const SharedFolder folder;
  const TrainSummary whole =
      train(testing::mpi_world(), misread, rollback_options(folder / "whole"));
  ASSERT_EQ(whole.rollbacks, 1);
  const int rank = testing::mpi_world().rank();
  const auto alone = testing::mpi_world().split(rank, 0);
  // Of the first pass; behind the rollback to step 50; behind the checkpoint of step 75.
  for (const auto& [epoch, resumed_at] :
       {std::pair(28, 50), std::pair(33, 50), std::pair(45, 75)}) {
    const std::string name = fmt::format("killed_{}", epoch);
    TrainOptions options = rollback_options(folder / name);
    if (rank == 0) {
      EXPECT_THROW(train(*alone, dies_in(epoch, misread), options), DataError);
    }
    testing::mpi_world().barrier();
    options.checkpoint.resume = "auto";
    const TrainSummary resumed = train(testing::mpi_world(), misread, options);
    EXPECT_EQ(resumed.resumed_at, resumed_at);
    EXPECT_EQ(resumed.rollbacks, 1);
    EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256) << name;
    EXPECT_EQ(resumed.samples, whole.samples);
  }
}

TEST(Rollback, NeedsACheckpoint) {
  const SharedFolder folder;
  TrainOptions options = rollback_options(folder / "checkpoints");
  options.checkpoint.every_steps = 90;
  const std::string error = error_of(misread, options);
  EXPECT_THAT(error, HasSubstr("there is no checkpoint yet to go back to"));
  expect_same_on_all_ranks(error);
  options.checkpoint.every_steps = 0;
  EXPECT_THROW(train(testing::mpi_world(), misread, options), ConfigError);
}

TEST(Rollback, WhereItDoesNotHelpTheRunEnds) {
  const SharedFolder folder;
  TrainOptions options = rollback_options(folder / "checkpoints");
  options.checkpoint.every_steps = 60;
  options.steps = 1000;
  // From epoch 30 on every 51st batch at least is misread, so that step 120 is never reached.
  const auto again = [](std::uint64_t epoch, std::int64_t i, float* features) {
    if (epoch >= kSpikeEpoch && (epoch - kSpikeEpoch) % 26 == 0 && i == 9) features[0] = 1e6f;
  };
  const std::string error = error_of(again, options);
  EXPECT_THAT(error, HasSubstr("5 rollbacks to step 60 have not led to a new checkpoint"));
  expect_same_on_all_ranks(error);
}

}  // namespace
}  // namespace lockstep
