// SPDX-License-Identifier: Apache-2.0
// Steps whose loss or gradients are not finite, and losses that jump, on several ranks: who is to
// blame is said, and what follows is the same everywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/data/sampler.h"
#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"
#include "parallel/replica/nonfinite_locator.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/parallel/small_table.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::HasSubstr;

/// Where sample `sample` is in epoch 0.
struct Place {
  std::int64_t step = 0, micro_batch = 0;
  int rank = 0;
};

Place place_of(std::int64_t sample, const TrainOptions& options) {
  data::Sampler sampler(kSamples, options.seed, true);
  const auto order = sampler.range(0, 0, kSamples);
  const std::int64_t at = std::ranges::find(order, sample) - order.begin();
  Place place{.step = at / kBatch, .micro_batch = at % kBatch / kMicroBatch};
  const int ranks = mpi_world().size();
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
  // 3e38 is finite; after weights of fc1 below 0.5, fc2's gradient or output is not.
  EXPECT_THAT(error, HasSubstr(fmt::format("first found on rank {} (", place.rank)));
  EXPECT_THAT(error, HasSubstr(fmt::format("in micro-batch {} of 4: ", place.micro_batch + 1)));
  EXPECT_THAT(error, HasSubstr(" fc"));
  EXPECT_THAT(error, HasSubstr(", output 0, "));
  expect_same_on_all_ranks(error);
}

/// x = 1e30, target = 1e10: after weights of about 1e-30 the loss is about 1e20, but its gradient
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
  DeviceContext context(mpi_world());
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
    const int ranks = mpi_world().size();
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
  const int ranks = mpi_world().size();
  for (const std::int64_t sample : {3, 17, 40, 63}) {
    try {
      train(mpi_world(),
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
std::vector<NonFiniteFinding> search(const SmallRun& run, Communicator& ranks) {
  DeviceContext context(ranks);
  const auto ignored = run.data.train->spec().ignore_index;
  const auto loss = [ignored](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, ignored);
  };
  const TrainOptions& o = run.options;
  Replica replica(
      context, run.model, loss, run.data.train->spec(), o, {o.global_batch % o.micro_batch});
  const Schedule schedule = replica.schedule(o.global_batch);
  TrainingRequests requests(
      {run.data.train->size(), o.global_batch, 1, o.seed, schedule, schedule});
  data::Loader loader(run.data.train,
                      {.workers = 0, .micro_batch = o.micro_batch},
                      [&](data::LoadRequest& r) { return requests.next(r); });
  return ReplicaState::of(replica).find_nonfinite(schedule, loader, 0);
}

TEST(NonFinite, HealthyNetsAreLeftAlone) {
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (SmallRun run : {small_resnet(), small_gpt(), small_gpt(7)}) {
      run.options.precision = precision;
      const auto findings = search(run, mpi_world());
      EXPECT_TRUE(findings.empty()) << to_text(findings, 4);
      run.options.recompute = Recompute::all;
      run.options.fuse = false;
      EXPECT_TRUE(search(run, mpi_world()).empty());
    }
}

void expect_no_trace(const ModelFunction& model,
                     float TrainOptions::*clip = &TrainOptions::clip_norm) {
  TrainOptions options = small_options();
  options.steps = 7;
  options.*clip = 0.5f;
  options.on_nonfinite = OnNonfinite::skip;
  constexpr std::int64_t kBad = 17;
  const auto poison = [](std::uint64_t epoch, std::int64_t i, float* features) {
    if (i == kBad && epoch < 2) features[2] = std::numeric_limits<float>::infinity();
  };
  Notes notes;
  const TrainSummary summary = train(mpi_world(), poison, options, &notes, model);
  EXPECT_EQ(summary.steps, 7);
  EXPECT_EQ(summary.skipped_steps, 2);
  EXPECT_TRUE(std::isfinite(summary.train_loss));
  if (mpi_world().rank() == 0) {
    ASSERT_EQ(notes.skips.size(), 2u);
    EXPECT_EQ(notes.skips[0].step, place_of(kBad, options).step + 1);
    EXPECT_THAT(notes.skips[0].cause, HasSubstr("data, 1 of 32 elements"));
  }

  // The same steps, those two skipped by hand, on this rank alone.
  std::vector<std::int64_t> bad;
  data::Sampler sampler(kSamples, options.seed, true);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    const auto order = sampler.range(epoch, 0, kSamples);
    bad.push_back(std::int64_t(epoch) * 2 +
                  (std::ranges::find(order, kBad) - order.begin()) / kBatch);
  }
  const auto alone = mpi_world().split(mpi_world().rank(), 0);
  DeviceContext context(*alone);
  const auto data = std::make_shared<SmallTable>(poison);
  Replica replica(context, model, softmax_cross_entropy, data->spec(), options, {});
  const Schedule schedule = replica.schedule(kBatch);
  const TrainingFeed feed(kSamples, kBatch, options.steps, options.seed, schedule, schedule);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    if (std::ranges::find(bad, step) != bad.end()) continue;
    TrainingRequests requests(feed, step);
    data::Loader loader(data,
                        {.workers = 0, .micro_batch = kMicroBatch},
                        [&](data::LoadRequest& r) { return requests.next(r); });
    replica.train_step(schedule, loader, step, 0.05f);
  }
  EXPECT_EQ(io::weights_sha256(replica.weights()), summary.weights_sha256);
}

TEST(Skip, LeavesNoTrace) { expect_no_trace(small_net); }
TEST(Skip, LeavesNoTraceWhereGradientsAreClipped) {
  expect_no_trace(small_net, &TrainOptions::clip_value);
  expect_no_trace(small_net, &TrainOptions::clip_agc);
}

/// Running statistics are in the weights that are compared.
TEST(Skip, LeavesNoTraceInBatchNorms) {
  expect_no_trace([](Builder& nn, Value x) {
    x = nn.relu(nn.batch_norm(nn.linear(x, {.out_features = 8, .name = "fc1"}), {.name = "bn"}));
    return nn.linear(x, {.out_features = 3, .name = "fc2"});
  });
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

TEST(Skip, IsCountedBeyondAnInterruption) {
  const SharedFolder folder;
  TrainOptions options = small_options();
  options.on_nonfinite = OnNonfinite::skip;
  options.steps = 8;
  const auto poison = put(17, std::numeric_limits<float>::quiet_NaN());
  const TrainSummary whole = train(mpi_world(), poison, options);
  EXPECT_EQ(whole.skipped_steps, 4) << "one of each epoch's two steps";
  options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 5};
  const int rank = mpi_world().rank();
  const auto alone = mpi_world().split(rank, 0);
  if (rank == 0) {
    EXPECT_THROW(train(*alone, dies_in(3, poison), options), DataError);
  }
  mpi_world().barrier();
  options.checkpoint.resume = "auto";
  const TrainSummary resumed = train(mpi_world(), poison, options);
  EXPECT_EQ(resumed.resumed_at, 5);
  EXPECT_EQ(resumed.skipped_steps, 4);
  EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256);
}

}  // namespace
}  // namespace lockstep
