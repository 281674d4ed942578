// SPDX-License-Identifier: Apache-2.0
// Runs of a model whose first layer whitens the training images.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tuple>
#include <vector>

#include "core/nn/whitening.h"
#include "lockstep/replica.h"
#include "lockstep/weights.h"
#include "parallel/batch/training_feed.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/discs.h"
#include "tests/parallel/shared_folder.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::disc_options;
using testing::discs;
using ::testing::HasSubstr;

constexpr std::int64_t kWhitened = 110, kHeldOut = 37;

/// A model as airbench94, small.
Value whitened_net(Builder& nn, Value x) {
  x = nn.gelu(nn.conv2d(x, {.out_channels = 24, .kernel = 2, .whitening = true, .name = "white"}));
  x = nn.max_pool2d(nn.conv2d(x, {.out_channels = 32, .padding = 1, .dirac_init = true}));
  x = nn.gelu(nn.batch_norm(x, {.momentum = 0.4f, .trains_weight = false}));
  return nn.scale(nn.linear(nn.global_avg_pool(x), {.out_features = 4, .bias = false}), 0.1f);
}

TEST(WhitenedRuns, WhiteningAndAlternatingFlipsHaveEqualBitsOnAnyRanks) {
  const testing::SharedFolder folder;
  TrainOptions options = disc_options();
  options.augmentation = data::parse_augmentation("shift:2,reflect,alternating-flip");
  options.optimizer = Sgd{.lr = 0.1f, .momentum = 0.85f, .nesterov = true, .weight_decay = 1e-3f};
  options.groups = {{.pattern = "batch_norm", .lr = 6.4f, .weight_decay = 2e-5f}};
  options.ema = {.decay = 0.9f};
  const auto run = [&](Communicator& ranks, const data::DataSplit& data) {
    testing::DeviceContext context(ranks);
    Trainer trainer(context, whitened_net, softmax_cross_entropy, options);
    const TrainSummary summary = trainer.fit(data);
    const std::vector<io::NamedTensor> weights = trainer.weights();
    const auto of = [&](const char* name) {
      return std::ranges::find(weights, name, [](const auto& t) { return t.parameter.name; })
          ->values;
    };
    return std::tuple(summary, of("white.weight"), of("batch_norm1.weight"), trainer.weights());
  };
  SelfCommunicator self;
  const data::DataSplit data = discs(kWhitened, kHeldOut, 16);
  const auto [alone, white, scales, weights] = run(self, data);
  // Neither is trained.
  EXPECT_EQ(white, whitening_filters(*data.train, {24, 2, 2, 3}, false));
  EXPECT_EQ(scales, std::vector<float>(32, 1.0f));
  for (const Sharding sharding : {Sharding::none, Sharding::gradients}) {
    options.sharding = sharding;
    const TrainSummary together = std::get<0>(run(testing::mpi_world(), data));
    EXPECT_EQ(together.weights_sha256, alone.weights_sha256);
    EXPECT_EQ(together.val_loss, alone.val_loss);
  }
  // Weights of a file stay, unless they are skipped.
  const std::string file = folder / "weights.safetensors";
  if (testing::mpi_world().rank() == 0) io::save_weights(file, weights);
  testing::mpi_world().barrier();
  options.sharding = Sharding::none;
  options.init = file;
  data::DataSplit others = discs(kWhitened, kHeldOut, 24);
  const auto whole = run(self, others);
  EXPECT_EQ(std::get<1>(whole), white);
  // So they do where a run resumes, whose images would give other filters.
  options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 5};
  options.steps = 5;
  run(testing::mpi_world(), others);
  options.checkpoint.resume = "auto";
  options.steps = 12;
  const auto resumed = run(testing::mpi_world(), others);
  EXPECT_EQ(std::get<0>(resumed).resumed_at, 5);
  EXPECT_EQ(std::get<0>(resumed).weights_sha256, std::get<0>(whole).weights_sha256);
  EXPECT_EQ(std::get<1>(resumed), white);
  options.checkpoint = {};
  options.init_skip = {"white"};
  EXPECT_EQ(std::get<1>(run(self, others)), whitening_filters(*others.train, {24, 2, 2, 3}, false));
  EXPECT_NE(std::get<1>(run(self, others)), white);
}

TEST(WhitenedRuns, AReplicaWaitsForTheImages) {
  TrainOptions options = disc_options();
  options.global_batch = 32;
  const auto images = discs(kWhitened, kHeldOut, 16).train;
  SelfCommunicator self;
  testing::DeviceContext context(self);
  Replica replica(context, whitened_net, softmax_cross_entropy, images->spec(), options, {});
  const Schedule schedule = replica.schedule(32);
  TrainingRequests requests({images->size(), 32, 4, options.seed, schedule, schedule});
  data::LoaderOptions loading{.workers = 0, .micro_batch = 8, .seed = options.seed};
  loading.augmentation = options.augmentation;
  replica.lend_memory(loading);
  data::Loader loader(
      images, loading, [&](data::LoadRequest& request) { return requests.next(request); });
  try {
    replica.train_step(schedule, loader, 0, 0.01f);
    ADD_FAILURE() << "a step was trained with filters of no image";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("white.weight starts from the training images"));
    EXPECT_THAT(error.hint(), HasSubstr("initialise_from()"));
  }
  replica.initialise_from(*images);
  EXPECT_EQ(replica.weights().front().values, whitening_filters(*images, {24, 2, 2, 3}, false));
  replica.train_step(schedule, loader, 0, 0.01f);
  for (const StepResult& result : replica.finish_steps()) require_finite(result);
}

/// Numbers that are whole but for one on rank 0.
class Numbers final : public data::Dataset {
 public:
  Numbers() {
    spec_.input = {{8, 8, 3}, DType::f32};
    spec_.target = {{}, DType::i32};
    spec_.classes = 4;
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return 64; }
  void load(std::uint64_t, std::int64_t index, std::byte* input, std::byte* target) const override {
    std::vector<float> values(8 * 8 * 3, float(index % 5));
    if (index == 7 && testing::mpi_world().rank() == 0) values[100] = std::nanf("");
    std::memcpy(input, values.data(), values.size() * sizeof(float));
    const auto label = std::int32_t(index % 4);
    std::memcpy(target, &label, sizeof label);
  }
  std::string describe() const override { return "numbers"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  data::SampleSpec spec_;
};

TEST(WhitenedRuns, AnErrorOfRank0IsEveryRanks) {
  TrainOptions options = disc_options();
  options.augmentation = {};
  testing::DeviceContext context(testing::mpi_world());
  Trainer trainer(context, whitened_net, softmax_cross_entropy, options);
  try {
    trainer.fit({std::make_shared<Numbers>(), nullptr});
    ADD_FAILURE() << "a value that is not finite was whitened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 7 of numbers has the value nan"));
  }
}

}  // namespace
}  // namespace lockstep
