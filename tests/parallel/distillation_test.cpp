// SPDX-License-Identifier: Apache-2.0
// Students of a teacher: their loss and first update against PyTorch's formulas in fp64, and equal
// bits on any number of ranks and through a resume.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "core/base/check.h"
#include "core/exec/answers.h"
#include "core/exec/batch_predictor.h"
#include "core/io/checkpoint/checkpoint.h"
#include "lockstep/data/loader.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/discs.h"
#include "tests/parallel/shared_folder.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::disc_net;
using testing::disc_options;
using testing::discs;
using ::testing::HasSubstr;

constexpr std::int64_t kStudentSamples = 110, kStudentValidation = 37;

Value larger_net(Builder& nn, Value x) {
  x = nn.relu(nn.batch_norm(nn.conv2d(x, {.out_channels = 16, .stride = 2, .padding = 1})));
  return nn.linear(nn.global_avg_pool(x), {.out_features = 4});
}

TrainSummary train_student(Communicator& ranks,
                           const TrainOptions& options,
                           const std::string& file = {},
                           const ModelFunction& model = disc_net) {
  testing::DeviceContext context(ranks);
  Trainer trainer(context, model, softmax_cross_entropy, options);
  const TrainSummary summary = trainer.fit(discs(kStudentSamples, kStudentValidation, 16));
  if (!file.empty() && context.rank() == 0) trainer.save_weights(file);
  return summary;
}

/// A teacher in a folder that all ranks see.
class Distilled : public ::testing::Test {
 protected:
  Distilled() : teacher_(make_teacher("teacher", 1)) {}

  std::string make_teacher(const std::string& name, std::uint64_t seed) {
    TrainOptions options = disc_options();
    options.seed = seed;
    const std::string file = folder_ / (name + ".safetensors");
    train_student(testing::mpi_world(), options, file, larger_net);
    testing::mpi_world().barrier();
    return file;
  }
  TrainOptions options(bool hard) const {
    TrainOptions options = disc_options();
    options.distillation = {
        .model = larger_net, .weights = teacher_, .alpha = 0.7f, .temperature = 2, .hard = hard};
    return options;
  }

  testing::SharedFolder folder_;
  std::string teacher_;
};

TEST_F(Distilled, StudentsHaveEqualBitsOnAnyRanks) {
  SelfCommunicator self;
  const std::string plain = train_student(self, disc_options()).weights_sha256;
  for (const bool hard : {false, true}) {
    TrainOptions options = this->options(hard);
    options.augmentation = data::parse_augmentation("flip,mixup");
    options.precision = hard ? Precision::bf16 : Precision::fp32;
    const TrainSummary alone = train_student(self, options);
    const TrainSummary together = train_student(testing::mpi_world(), options);
    EXPECT_EQ(together.weights_sha256, alone.weights_sha256);
    EXPECT_EQ(together.train_loss, alone.train_loss);
    EXPECT_EQ(together.val_loss, alone.val_loss);
    EXPECT_NE(alone.weights_sha256, plain);
  }
}

TEST_F(Distilled, AResumedStudentHasItsTeacher) {
  SelfCommunicator self;
  TrainOptions options = this->options(false);
  options.eval_every = 100;
  const std::string whole = train_student(self, options).weights_sha256;
  options.checkpoint = {.folder = folder_ / "first"};
  int asked = 0;
  options.stop = [&] { return ++asked == 5; };
  Communicator& world = testing::mpi_world();
  std::int64_t steps = 0;
  if (world.rank() == 0) steps = train_student(self, options).steps;
  world.broadcast(&steps, sizeof steps, 0);
  ASSERT_LT(steps, options.steps);
  options.stop = {};
  options.checkpoint = {.folder = {}, .resume = folder_ / "first/" + io::checkpoint_name(steps)};
  EXPECT_EQ(train_student(world, options).weights_sha256, whole);
  // Another teacher is another training, and so is none.
  options.distillation.weights = make_teacher("other", 2);
  for (const bool taught : {true, false}) {
    if (!taught) options.distillation = {};
    try {
      train_student(self, options);
      FAIL() << "no error";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("teacher"));
    }
  }
  testing::mpi_world().barrier();
}

// The loss of the first step, in fp64 from the logits of both models.
TEST_F(Distilled, TheLossIsThatOfItsFormula) {
  SelfCommunicator self;
  testing::DeviceContext context(self);
  const auto data = discs(kStudentSamples, kStudentValidation, 16).train;
  const auto student = [](Builder& nn, Value x) {  // without batch norm and dropout
    x = nn.relu(nn.conv2d(x, {.out_channels = 6, .stride = 2, .padding = 1}));
    return nn.linear(nn.global_avg_pool(x), {.out_features = 4});
  };
  for (const bool hard : {false, true}) {
    TrainOptions options = this->options(hard);
    options.augmentation = {};
    Replica replica(context, student, softmax_cross_entropy, data->spec(), options, {6});
    const Schedule schedule = replica.schedule(options.global_batch);
    TrainingRequests requests({kStudentSamples, options.global_batch, 1, 1, schedule, schedule});
    std::vector<std::int64_t> seen;
    data::Loader loader(
        data, {.workers = 0, .micro_batch = options.micro_batch}, [&](data::LoadRequest& r) {
          const bool more = requests.next(r);
          seen.insert(seen.end(), r.samples.begin(), r.samples.end());
          return more;
        });
    const std::string file = folder_ / fmt::format("student_{}", testing::mpi_world().rank());
    io::save_weights(file, replica.weights());
    std::vector<StepResult> results;
    for (const StepResult& r : replica.train_step(schedule, loader, 0, 0)) results.push_back(r);
    for (const StepResult& r : replica.finish_steps()) results.push_back(r);
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(seen.size(), std::size_t(options.global_batch));

    const auto predictor = [&](const ModelFunction& model, const std::string& weights) {
      return BatchPredictor(context.backend(), model, data->spec(), 1, Precision::fp32, weights);
    };
    BatchPredictor own = predictor(student, file), taught = predictor(larger_net, teacher_);
    const double alpha = double(options.distillation.alpha), t = hard ? 1 : 2;
    const auto at = [&](std::vector<float> logits, double temperature) {
      for (float& logit : logits) logit = float(double(logit) / temperature);
      return softmax(logits);
    };
    double loss = 0;
    std::vector<std::byte> image(data->spec().input.bytes());
    for (const std::int64_t sample : seen) {
      std::int32_t label = 0;
      data->load(0, sample, image.data(), reinterpret_cast<std::byte*>(&label));
      const std::vector<float> x = own.run(image.data()), wanted = taught.run(image.data());
      const std::vector<double> p = at(x, t), q = at(wanted, t);
      loss -= (1 - alpha) * std::log(softmax(x)[std::size_t(label)]);
      if (hard) loss -= alpha * std::log(p[largest(q, 1)[0]]);
      for (std::size_t k = 0; k < q.size() && !hard; ++k)
        loss += alpha * t * t * q[k] * std::log(q[k] / p[k]);
    }
    loss /= double(options.global_batch);
    // Logits are sums of 27, 64 and 6 products in another order, and the loss of 30 rows.
    constexpr double kRoundings = 256;
    EXPECT_NEAR(results[0].loss,
                loss,
                kRoundings * double(std::numeric_limits<float>::epsilon()) * (1 + loss));
  }
}

TEST_F(Distilled, WhatCannotBeTaughtIsNamed) {
  SelfCommunicator self;
  const auto refused = [&](const TrainOptions& options,
                           const LossFunction& loss = softmax_cross_entropy) -> std::string {
    testing::DeviceContext context(self);
    try {
      Trainer(context, disc_net, loss, options).fit(discs(kStudentSamples, kStudentValidation, 16));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  TrainOptions options = this->options(false);
  options.distillation.alpha = 0;
  EXPECT_THAT(refused(options), HasSubstr("expected a `distillation_alpha` above 0"));
  options = this->options(false);
  options.first_image_size = 8;
  EXPECT_THAT(refused(options), HasSubstr("`teacher` cannot be combined with an `image_size`"));
  options = this->options(false);
  options.distillation.model = disc_net;
  EXPECT_THAT(refused(options), HasSubstr("conv2d1.weight"));  // of another shape in the file
  options = this->options(false);
  options.distillation.model = [](Builder& nn, Value x) {
    return nn.linear(nn.global_avg_pool(x), {.out_features = 5});
  };
  EXPECT_THAT(refused(options), HasSubstr("linear1.weight"));
  options = this->options(false);
  options.distillation.weights = folder_ / "nowhere.safetensors";
  EXPECT_THAT(refused(options), HasSubstr("nowhere.safetensors"));
  EXPECT_THAT(refused(this->options(false),
                      [](Builder& nn, Value x, Value labels) {
                        return nn.softmax_cross_entropy(x, labels, 0, 3);
                      }),
              HasSubstr("no `ignore_index`"));
  testing::mpi_world().barrier();
}

}  // namespace
}  // namespace lockstep
