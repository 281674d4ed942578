// SPDX-License-Identifier: Apache-2.0
// Outcomes that the host reads a step late give the same weights, results and errors as outcomes
// that it reads at once.
#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/step/step_status_ring.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "lockstep/trainer.h"
#include "lockstep/training_feed.h"
#include "lockstep/zoo.h"
#include "tests/parallel/late_context.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

using testing::LateContext;

/// f32 samples of which one may be infinite, or all labels ignored from sample `ignored` on.
class FewNumbers final : public data::Dataset {
 public:
  FewNumbers() {
    spec_.input = {Shape{4}, DType::f32};
    spec_.target = {Shape{}, DType::i32};
    spec_.classes = 3;
    spec_.ignore_index = -1;
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return 64; }
  void load(std::uint64_t epoch, std::int64_t index, std::byte* x, std::byte* y) const override {
    for (int i = 0; i < 4; ++i)
      reinterpret_cast<float*>(x)[i] = float((index * 7 + i * 5) % 11) / 11;
    if (index == infinite && epoch == bad_epoch) reinterpret_cast<float*>(x)[1] = HUGE_VALF;
    *reinterpret_cast<std::int32_t*>(y) =
        all_ignored && epoch == bad_epoch ? -1 : std::int32_t(index % 3);
  }
  std::string describe() const override { return "numbers"; }
  std::uint64_t fingerprint() const override { return 1; }

  std::int64_t infinite = -1;
  bool all_ignored = false;
  std::uint64_t bad_epoch = 1;

 private:
  data::SampleSpec spec_;
};

Value small_model(Builder& nn, Value x) {
  x = nn.batch_norm(nn.linear(x, {.out_features = 8}));
  return nn.linear(nn.relu(x), {.out_features = 3});
}

Value ignoring_loss(Builder& nn, Value logits, Value labels) {
  return nn.softmax_cross_entropy(logits, labels, 0.0f, -1);
}

TrainOptions small_options() {
  TrainOptions options{.global_batch = 16, .micro_batch = 4, .steps = 12};
  options.optimizer = AdamW{.lr = 0.01f};
  options.clip_norm = 0.1f;
  options.workers = 1;
  options.log_every = 5;
  options.eval_every = 4;
  return options;
}

struct Ended {
  std::string error, weights;
  double loss = 0, val_loss = 0;
};

Ended fit(RankContext& context, const FewNumbers& data, const TrainOptions& options) {
  Trainer trainer(context, small_model, ignoring_loss, options);
  const auto set = std::make_shared<FewNumbers>(data);
  const auto validation = std::make_shared<FewNumbers>();
  Ended ended;
  try {
    const TrainSummary summary = trainer.fit({set, validation});
    ended.loss = summary.train_loss;
    ended.val_loss = summary.val_loss;
  } catch (const Error& error) {
    ended.error = error.what();
  }
  ended.weights = io::weights_sha256(trainer.weights());
  return ended;
}

/// Fits at once and late, and expects the same.
Ended expect_same(const FewNumbers& data, const TrainOptions& options) {
  testing::DeviceContext at_once(testing::mpi_world());
  LateContext late;
  const Ended want = fit(at_once, data, options), got = fit(late, data, options);
  EXPECT_EQ(got.error, want.error);
  EXPECT_EQ(got.weights, want.weights);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.val_loss, want.val_loss);
  EXPECT_EQ(late.late.torn_copies(), 0) << "a slot was filled while the device copied from it";
  EXPECT_GT(late.late.late_copies(), 0);
  return want;
}

TEST(LateResults, SameBits) {
  for (const int workers : {0, 1, 2}) {
    TrainOptions options = small_options();
    options.workers = workers;
    EXPECT_EQ(expect_same({}, options).error, "");
  }
}

TEST(LateResults, SameErrorAndWeightsWhereALossIsNotFinite) {
  for (const std::int64_t sample : {0, 5, 20, 63}) {  // in one step or another of the second epoch
    FewNumbers data;
    data.infinite = sample;
    for (const int every : {0, 1, 5}) {
      TrainOptions options = small_options();
      options.log_every = every;
      options.eval_every = 0;
      EXPECT_THAT(expect_same(data, options).error, HasSubstr("training: the loss of step"));
    }
  }
}

TEST(LateResults, SameErrorWhereNothingCounts) {
  FewNumbers data;
  data.all_ignored = true;
  EXPECT_THAT(expect_same(data, small_options()).error,
              HasSubstr("all labels of step 5 (16 samples) are to be ignored"));
}

/// A replica with what feeds it.
struct Steps {
  Steps(RankContext& context, const TrainOptions& options, std::shared_ptr<FewNumbers> data)
      : replica(context, small_model, ignoring_loss, data->spec(), options, {}),
        schedule(replica.schedule(options.global_batch)),
        requests({data->size(), options.global_batch, 20, options.seed, schedule, schedule}),
        loader(data, loading(options), [this](data::LoadRequest& r) { return requests.next(r); }) {}
  data::LoaderOptions loading(const TrainOptions& options) const {
    data::LoaderOptions loading{.workers = 0, .micro_batch = options.micro_batch};
    replica.lend_memory(loading);
    return loading;
  }
  std::vector<StepResult> train(std::int64_t step) {
    const auto results = replica.train_step(schedule, loader, step, 0.01f);
    return {results.begin(), results.end()};
  }
  std::string weights() const { return io::weights_sha256(replica.weights()); }

  Replica replica;
  Schedule schedule;
  TrainingRequests requests;
  data::Loader loader;
};

TEST(LateResults, EachResultComesOnceAndInOrder) {
  LateContext context;
  Steps steps(context, small_options(), std::make_shared<FewNumbers>());
  EXPECT_EQ(steps.replica.newest_result().step, -1);
  EXPECT_TRUE(steps.train(0).empty());
  for (std::int64_t step = 1; step < 6; ++step) {
    const auto results = steps.train(step);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].step, step - 1);
    EXPECT_GT(results[0].grad_norm, 0);
    // Rank 0 looks when it saves; what train_step() returns must not depend on it.
    if (context.rank() == 0) {
      EXPECT_EQ(steps.replica.newest_result().step, step);
    }
  }
  ASSERT_EQ(steps.replica.finish_steps().size(), 1u);
  EXPECT_TRUE(steps.replica.finish_steps().empty());
  EXPECT_EQ(steps.replica.newest_result().step, 5);
}

/// Bad in epoch 1, which is steps 4 to 7.
std::shared_ptr<FewNumbers> ignored_in_epoch_1() {
  auto data = std::make_shared<FewNumbers>();
  data->all_ignored = true;
  return data;
}

TEST(LateResults, NothingIsUpdatedAfterABadStepUntilTheHostSaysSo) {
  LateContext context;
  Steps steps(context, small_options(), ignored_in_epoch_1());
  for (std::int64_t step = 0; step < 4; ++step) steps.train(step);
  const std::string before = steps.weights();
  for (std::int64_t step = 4; step < 10; ++step) steps.train(step);
  const StepResult last = steps.replica.newest_result();
  EXPECT_TRUE(last.bad && last.after_bad);
  EXPECT_EQ(last.counted, 1) << "this step alone was good";
  EXPECT_EQ(steps.weights(), before);
  steps.replica.resume_updates();
  EXPECT_EQ(steps.replica.newest_result().step, -1);
  steps.train(10);
  EXPECT_FALSE(steps.replica.newest_result().bad);
  EXPECT_NE(steps.weights(), before);
}

TEST(LateResults, SkippingLeavesOutBadStepsAlone) {
  TrainOptions options = small_options();
  options.on_nonfinite = OnNonfinite::skip;
  LateContext context;
  Steps steps(context, options, ignored_in_epoch_1());
  for (std::int64_t step = 0; step < 8; ++step) steps.train(step);
  const StepResult bad = steps.replica.newest_result();
  EXPECT_TRUE(bad.bad && !bad.after_bad);
  const std::string before = steps.weights();
  steps.train(8);
  EXPECT_FALSE(steps.replica.newest_result().bad);
  EXPECT_NE(steps.weights(), before);
}

TEST(RequireFinite, SaysWhatIsWrong) {
  EXPECT_NO_THROW(require_finite({.loss = 1, .grad_norm = 1, .step = 3, .samples = 16}));
  const auto message = [](StepResult result) {
    result.bad = true;
    try {
      require_finite(result);
    } catch (const NonFiniteError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({.loss = NAN, .grad_norm = 1, .step = 3, .samples = 16}),
              HasSubstr("loss of step 4 (16 samples) is nan"));
  EXPECT_THAT(message({.loss = 1, .grad_norm = HUGE_VAL, .step = 3}),
              HasSubstr("gradient norm of step 4 is inf"));
  EXPECT_THAT(message({.loss = 1, .grad_norm = 1, .step = 3, .after_bad = true}),
              HasSubstr("step 4 was skipped"));
}

}  // namespace
}  // namespace lockstep
