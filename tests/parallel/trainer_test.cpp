// SPDX-License-Identifier: Apache-2.0
// What a Trainer refuses or stops at, on several ranks: the same error everywhere, and no hang.
#include "lockstep/trainer.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "lockstep/zoo.h"
#include "tests/parallel/metered_context.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

int rank() { return testing::mpi_world().rank(); }

TrainOptions small_options() {
  TrainOptions options{.global_batch = 32, .micro_batch = 8, .steps = 2};
  options.optimizer = Sgd{.lr = 0.01f};
  return options;
}

std::string error_of(RankContext& context,
                     const ModelFunction& model,
                     const TrainOptions& options) {
  try {
    Trainer(context, model, softmax_cross_entropy, options).fit(data::glyphs(64, 16));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(const ModelFunction& model, const TrainOptions& options) {
  testing::DeviceContext context(testing::mpi_world());
  return error_of(context, model, options);
}

ModelFunction convnet() { return nn::make_model({.name = "convnet", .outputs = 10}); }

TEST(Trainer, RanksWithOtherBatchNormAreNamed) {
  TrainOptions options = small_options();
  options.batch_norm = BatchNormPolicy::parse(rank() == 1 ? "sync" : "local");
  const std::string message = error_of(convnet(), options);
  EXPECT_THAT(message, HasSubstr("batch-norm is local on rank"));
  EXPECT_THAT(message, HasSubstr("sync on rank 1"));
}

TEST(Trainer, RanksWithAnotherModelAreNamed) {
  const char* name = rank() == 1 ? "mlp" : "convnet";
  EXPECT_THAT(error_of(nn::make_model({.name = name, .outputs = 10}), small_options()),
              HasSubstr("model is"));
}

// Their replicas would drift apart.
TEST(Trainer, RanksWithAnotherKindOfDeviceAreNamed) {
  testing::MeteredContext context;
  if (rank() == 1) context.metered.pretended_class = ", of another kind";
  const std::string message = error_of(context, convnet(), small_options());
  EXPECT_THAT(message, HasSubstr("ranks differ: device class is "));
  EXPECT_THAT(message, HasSubstr(", of another kind on rank 1"));
}

TEST(Trainer, ModelWithOtherParametersInEvaluationIsRefused) {
  const auto model = [](Builder& nn, Value x) {
    x = nn.flatten(x);
    if (nn.mode() == Mode::training) x = nn.batch_norm(x);
    return nn.linear(x, {.out_features = 10});
  };
  EXPECT_THAT(error_of(model, small_options()), HasSubstr("declares other parameters"));
}

TEST(Trainer, OutputsMustBeTheClasses) {
  const auto model = [](Builder& nn, Value x) {
    return nn.linear(nn.flatten(x), {.out_features = 12});
  };
  EXPECT_THAT(error_of(model, small_options()), HasSubstr("the data has 10 classes"));
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
  std::int64_t size() const override { return 64; }
  void load(std::uint64_t, std::int64_t, std::byte* input, std::byte* target) const override {
    std::fill_n(reinterpret_cast<float*>(input), 4, 1e30f);
    *reinterpret_cast<float*>(target) = 1e10f;
  }
  std::string describe() const override { return "steep"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  data::SampleSpec spec_;
};

TEST(Replica, AGradientThatIsNotFiniteStopsBeforeTheWeightsChange) {
  testing::DeviceContext context(testing::mpi_world());
  const auto model = [](Builder& nn, Value x) {
    return nn.linear(x, {.out_features = 1, .normal_init = 1e-30f});
  };
  const auto data = std::make_shared<SteepData>();
  const TrainOptions options = small_options();
  Replica replica(context, model, mean_squared_error, data->spec(), options, {});
  const std::string before = io::weights_sha256(replica.weights());
  const Schedule schedule = replica.schedule(options.global_batch);
  TrainingRequests requests(
      {data->size(), options.global_batch, 2, options.seed, schedule, schedule});
  data::Loader loader(data,
                      {.workers = 0, .micro_batch = options.micro_batch},
                      [&](data::LoadRequest& r) { return requests.next(r); });
  try {
    replica.train_step(schedule, loader, 0, 0.01f);
    require_finite(replica.newest_result());
    FAIL() << "expected a NonFiniteError";
  } catch (const NonFiniteError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the gradient norm of step 1 is inf"));
    EXPECT_EQ(int(error.exit_code()), 7);
  }
  EXPECT_EQ(io::weights_sha256(replica.weights()), before);
}

TEST(Trainer, ALossThatIsNotFiniteStopsTheRun) {
  TrainOptions options = small_options();
  options.optimizer = Sgd{.lr = 1e30f};
  options.steps = 3;
  EXPECT_THAT(error_of(convnet(), options), HasSubstr("training: the loss of step"));
}

TEST(Trainer, TheProgramCompletesRecords) {
  struct Told final : TrainObserver {
    void on_step(const StepRecord& record) override { ms = record.step_ms.total; }
    void on_end(const TrainSummary& summary) override { gpus = int(summary.gpus.size()); }
    double ms = 0;
    int gpus = 0;
  } told;
  TrainOptions options = small_options();
  options.log_every = 1;
  options.complete_step = [](StepRecord& record) {
    EXPECT_EQ(rank(), 0);
    record.step_ms.total = 4321;
  };
  int ends = 0;
  testing::DeviceContext context(testing::mpi_world());
  options.complete_summary = [&](TrainSummary& summary) {
    ++ends;
    context.communicator().barrier();  // all ranks are here
    summary.gpus.resize(3);
  };
  Trainer trainer(context, convnet(), softmax_cross_entropy, options);
  trainer.add_observer(told);
  trainer.fit(data::glyphs(64, 16));
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(told.ms, rank() == 0 ? 4321 : 0);
  EXPECT_EQ(told.gpus, rank() == 0 ? 3 : 0);
}

TEST(Trainer, AStoppedRunHasNothingCompleted) {
  TrainOptions options = small_options();
  int ends = 0, asked = 0;
  options.steps = 100;
  options.stop = [&] { return ++asked > 1; };
  options.complete_summary = [&](TrainSummary&) { ++ends; };
  testing::DeviceContext context(testing::mpi_world());
  Trainer trainer(context, convnet(), softmax_cross_entropy, options);
  EXPECT_TRUE(trainer.fit(data::glyphs(64, 16)).stopped);
  EXPECT_EQ(ends, 0);
}

TEST(Trainer, ASecondFitCountsItsOwnTime) {
  testing::DeviceContext context(testing::mpi_world());
  Trainer trainer(context, convnet(), softmax_cross_entropy, small_options());
  const data::DataSplit data = data::glyphs(64, 16);
  const TrainSummary first = trainer.fit(data), second = trainer.fit(data);
  EXPECT_EQ(first.weights_sha256, second.weights_sha256);
  EXPECT_NEAR(second.samples_per_s * second.wall_s, double(second.samples), 1e-6 * 64);
}

}  // namespace
}  // namespace lockstep
