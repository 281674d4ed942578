// SPDX-License-Identifier: Apache-2.0
// What recipes of images change besides the augmentation: how evaluations look at them.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/exec/answers.h"
#include "core/exec/batch_predictor.h"
#include "core/io/checkpoint/checkpoint.h"
#include "lockstep/data/loader.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "lockstep/weights.h"
#include "parallel/batch/schedule.h"
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

constexpr std::int64_t kTrained = 110, kValidated = 37;

/// The run on all ranks, and its weights in `file` unless that is empty.
TrainSummary train(Communicator& ranks,
                   const TrainOptions& options,
                   const data::DataSplit& data,
                   const std::string& file = {}) {
  testing::DeviceContext context(ranks);
  Trainer trainer(context, disc_net, softmax_cross_entropy, options);
  const TrainSummary summary = trainer.fit(data);
  if (!file.empty() && context.rank() == 0) trainer.save_weights(file);
  return summary;
}

void expect_same_end(const TrainSummary& a, const TrainSummary& b) {
  EXPECT_EQ(a.weights_sha256, b.weights_sha256);
  EXPECT_EQ(a.train_loss, b.train_loss);
  EXPECT_EQ(a.val_loss, b.val_loss);
  EXPECT_EQ(a.val_accuracy, b.val_accuracy);
}

/// Mean cross-entropy, in fp64, of logits averaged over each image and, with `mirrors`, its mirror
/// image.
double loss_of(const std::string& weights, const data::Dataset& data, bool mirrors) {
  SelfCommunicator self;
  testing::DeviceContext context(self);
  BatchPredictor predictor(context.backend(), disc_net, data.spec(), 1, Precision::fp32, weights);
  const std::int64_t side = data.spec().input.shape[0];
  std::vector<std::byte> image(data.spec().input.bytes()), mirrored(image.size());
  double sum = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    std::int32_t label = 0;
    data.load(0, i, image.data(), reinterpret_cast<std::byte*>(&label));
    std::vector<float> logits = predictor.run(image.data());
    for (std::int64_t pixel = 0; pixel < side * side; ++pixel)
      std::copy_n(image.begin() + 3 * pixel,
                  3,
                  mirrored.begin() + 3 * (pixel / side * side + side - 1 - pixel % side));
    const std::vector<float>& second = predictor.run(mirrored.data());
    for (std::size_t k = 0; mirrors && k < logits.size(); ++k)
      logits[k] = 0.5f * (logits[k] + second[k]);
    sum -= std::log(softmax(logits)[std::size_t(label)]);
  }
  return sum / double(data.size());
}

// Validations of another size than training's, with mirror images or without: the weights are the
// same, and so is the loss on any number of ranks, a short last micro-batch and all.
TEST(ImageRecipes, ValidationsLookAtMirrorImagesAndAnotherSize) {
  const testing::SharedFolder folder;
  TrainOptions options = disc_options();
  SelfCommunicator self;
  data::DataSplit data = discs(kTrained, kValidated, 16);
  const TrainSummary plain = train(self, options, data);
  data.validation = data.validation->resized(24);
  for (const TestTimeAugmentation tta : {TestTimeAugmentation::none, TestTimeAugmentation::flip}) {
    options.tta = tta;
    const std::string file = folder / "weights.safetensors";
    const TrainSummary together = train(testing::mpi_world(), options, data, file);
    testing::mpi_world().barrier();
    expect_same_end(train(self, options, data), together);
    EXPECT_EQ(together.weights_sha256, plain.weights_sha256);
    const double expected =
        loss_of(file, *data.validation, options.tta == TestTimeAugmentation::flip);
    // Sums of 27, 36 and 8 products and of 36 means come before the loss, in another order.
    constexpr double kRoundings = 128;
    EXPECT_NEAR(together.val_loss,
                expected,
                kRoundings * double(std::numeric_limits<float>::epsilon()) * (1 + expected));
  }
}

/// All that a recipe of images can ask for at once.
TrainOptions recipe() {
  TrainOptions options = disc_options();
  options.augmentation = data::parse_augmentation("shift,flip,erasing,cutmix");
  options.first_image_size = 16;  // 16, 32, 48: 4 steps each
  options.repeated_augmentation = 3;
  options.tta = TestTimeAugmentation::flip;
  options.ema = {.decay = 0.9f};
  return options;
}

data::DataSplit recipe_data() {
  data::DataSplit data = discs(kTrained, kValidated, 48);
  data.validation = data.validation->resized(56);
  return data;
}

TEST(ImageRecipes, GrowingImagesAndCopiesHaveEqualBitsOnAnyRanks) {
  SelfCommunicator self;
  const TrainSummary alone = train(self, recipe(), recipe_data());
  TrainOptions other = recipe();
  for (const Sharding sharding : {Sharding::none, Sharding::gradients}) {
    other.sharding = sharding;
    expect_same_end(train(testing::mpi_world(), other, recipe_data()), alone);
  }
  // Each of the two changes what is learned.
  other = recipe();
  other.first_image_size = 0;
  EXPECT_NE(train(self, other, recipe_data()).weights_sha256, alone.weights_sha256);
  other = recipe();
  other.repeated_augmentation = 1;
  EXPECT_NE(train(self, other, recipe_data()).weights_sha256, alone.weights_sha256);
}

// Stopped before, at and after a change of size, on one rank, and continued by all.
TEST(ImageRecipes, AResumedRunHasTheSizesAndCopiesOfItsEpoch) {
  Communicator& world = testing::mpi_world();
  SelfCommunicator self;
  const TrainSummary whole = train(self, recipe(), recipe_data());
  for (const int moment : {3, 5, 9}) {
    const testing::SharedFolder folder;
    TrainOptions options = recipe();
    options.eval_every = 100;  // asked once a step
    options.checkpoint = {.folder = folder / "first"};
    int asked = 0;
    options.stop = [&] { return ++asked == moment; };
    std::int64_t steps = 0;
    if (world.rank() == 0) steps = train(self, options, recipe_data()).steps;
    world.broadcast(&steps, sizeof steps, 0);
    ASSERT_LT(steps, options.steps);
    options.stop = {};
    options.checkpoint = {.folder = {}, .resume = folder / "first/" + io::checkpoint_name(steps)};
    const TrainSummary resumed = train(world, options, recipe_data());
    EXPECT_EQ(resumed.resumed_at, steps);
    EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256);
  }
}

// Of 5 epochs the sides are 16, 32, 32, 32 and 48, and of 3 they were 16, 32 and 48.
TEST(ImageRecipes, AResumeOfAnotherLengthSaysWhichEpochHasAnotherSize) {
  const testing::SharedFolder folder;
  SelfCommunicator self;
  TrainOptions options = recipe();
  options.checkpoint = {.folder =
                            fmt::format("{}_{}", folder / "run", testing::mpi_world().rank())};
  options.eval_every = 100;
  int asked = 0;
  options.stop = [&] { return ++asked == 5; };
  const std::int64_t steps = train(self, options, recipe_data()).steps;
  options.stop = {};
  options.steps = 20;
  options.checkpoint.resume = options.checkpoint.folder + "/" + io::checkpoint_name(steps);
  struct Watch final : TrainObserver {
    void on_start(const ResumeRecord* resumed) override {
      if (resumed) lines = resumed->overridden;
    }
    std::vector<std::string> lines;
  } watch;
  testing::DeviceContext context(self);
  Trainer trainer(context, disc_net, softmax_cross_entropy, options);
  trainer.add_observer(watch);
  trainer.fit(recipe_data());
  EXPECT_THAT(watch.lines,
              ::testing::Contains("image-size: growing over 3 epochs then, 5 now: epoch 3 has a "
                                  "side of 48 then, 32 now"));
}

// A Loader of the caller's own with other options than the run would be read past its end.
TEST(ImageRecipes, AReplicaRefusesMicroBatchesOfAnotherKind) {
  SelfCommunicator self;
  testing::DeviceContext context(self);
  const data::DataSplit data = discs(64, 16, 16);
  TrainOptions options = disc_options();
  options.global_batch = 32;  // in whole micro-batches
  options.augmentation = data::parse_augmentation("mixup");
  options.tta = TestTimeAugmentation::flip;
  const std::int64_t batch = options.global_batch;
  // A step that was refused is not over, so that each has a replica of its own.
  const auto error = [&](data::LoaderOptions loading, bool training, std::int64_t missing) {
    Replica replica(context, disc_net, softmax_cross_entropy, data.train->spec(), options, {});
    const std::int64_t samples = replica.batch().micro_batch - missing;
    loading.workers = 0;
    loading.micro_batch = replica.batch().micro_batch;
    data::Loader loader(data.train, loading, [&](data::LoadRequest& request) {
      request.samples.assign(std::size_t(samples), 0);
      return true;
    });
    try {
      if (training)
        replica.train_step(replica.schedule(batch), loader, 0, 0.1f);
      else
        replica.evaluate(replica.evaluation_schedule(batch), loader);
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string("no error");
  };
  constexpr std::int64_t whole = 0;
  EXPECT_EQ(error({.augmentation = options.augmentation}, true, whole), "no error");
  EXPECT_EQ(error({.mirror = true}, false, whole), "no error");
  EXPECT_THAT(error({}, true, whole),
              HasSubstr("replica: expected a micro-batch of"));  // not mixed
  EXPECT_THAT(error({.augmentation = options.augmentation}, true, 1), HasSubstr("samples"));
  EXPECT_THAT(error({}, false, whole), HasSubstr("replica: expected"));  // without mirror images
  EXPECT_THAT(error({.augmentation = options.augmentation, .mirror = true}, false, whole),
              HasSubstr(", mixed, with mirror images"));
}

// A run whose images grow in one epoch alone is one of the last size; the first epoch of a longer
// one is that of a run of the first size, bit for bit.
TEST(ImageRecipes, TheWeightsDoNotKnowTheSizes) {
  SelfCommunicator self;
  TrainOptions options = disc_options();
  options.steps = 4;  // an epoch
  const TrainSummary large = train(self, options, discs(kTrained, kValidated, 32));
  const TrainSummary small = train(self, options, discs(kTrained, kValidated, 16));
  options.first_image_size = 16;
  EXPECT_EQ(train(self, options, discs(kTrained, kValidated, 32)).weights_sha256,
            large.weights_sha256);
  const testing::SharedFolder folder;
  const std::string file = folder / fmt::format("{}", testing::mpi_world().rank());
  options.steps = 8;
  options.eval_every = 100;
  for (int moment = 1; moment < 9; ++moment) {
    options.checkpoint = {.folder = fmt::format("{}_{}", file, moment)};
    int asked = 0;
    options.stop = [&] { return ++asked == moment; };
    testing::DeviceContext context(self);
    Trainer trainer(context, disc_net, softmax_cross_entropy, options);
    if (trainer.fit(discs(kTrained, kValidated, 32)).steps < 4) continue;
    EXPECT_EQ(io::weights_sha256(trainer.weights()), small.weights_sha256);
    return;
  }
  FAIL() << "no run stopped after the first epoch";
}

TEST(ImageRecipes, RepeatedSamplesAreApartInABatch) {
  constexpr std::int64_t kBatch = 12, kSize = 32;  // 12, 12 and 8
  constexpr int kCopies = 3;
  const auto schedule = [](std::int64_t samples) {
    return make_schedule({.samples = samples, .micro_batch = 5, .shards = 3, .ranks = 1}, 0);
  };
  TrainingRequests requests({kSize, kBatch, 6, 7, schedule(kBatch), schedule(8), {}, kCopies});
  std::vector<std::vector<std::pair<std::int64_t, int>>> batches;
  std::int64_t left = 0;
  for (data::LoadRequest request; requests.next(request);) {
    ASSERT_EQ(request.copies.size(), request.samples.size());
    if (left == 0) {
      batches.emplace_back();
      left = batches.size() % 3 == 0 ? 8 : kBatch;
    }
    for (std::size_t i = 0; i < request.samples.size(); ++i)
      batches.back().emplace_back(request.samples[i], request.copies[i]);
    left -= std::ssize(request.samples);
  }
  ASSERT_EQ(batches.size(), 6u);
  for (std::size_t first : {std::size_t{0}, std::size_t{3}}) {  // each epoch
    std::map<std::int64_t, std::set<int>> seen;
    for (std::size_t b = first; b < first + 3; ++b) {
      const std::size_t distinct = (batches[b].size() + 2) / 3;
      for (std::size_t i = 0; i < batches[b].size(); ++i) {
        EXPECT_EQ(batches[b][i].first, batches[b][i % distinct].first);
        EXPECT_EQ(batches[b][i].second, int(i / distinct));
        EXPECT_TRUE(seen[batches[b][i].first].insert(batches[b][i].second).second);
      }
    }
    EXPECT_EQ(seen.size(), 4u + 4 + 3);  // of 32
  }
  EXPECT_NE(batches[0], batches[3]);
}

TEST(ImageRecipes, WhatCannotGrowOrBeRepeatedIsNamed) {
  SelfCommunicator self;
  const auto refused = [&](const TrainOptions& options,
                           const data::DataSplit& data,
                           const ModelFunction& model = disc_net) -> std::string {
    testing::DeviceContext context(self);
    try {
      Trainer(context, model, softmax_cross_entropy, options).fit(data);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  TrainOptions options = disc_options();
  options.repeated_augmentation = 4;
  EXPECT_THAT(refused(options, discs(64, 8, 16)),
              HasSubstr("`repeated_augmentation` 4: expected a number that divides"));
  options = disc_options();
  options.first_image_size = 24;
  EXPECT_THAT(refused(options, discs(64, 8, 16)), HasSubstr("24:16: images grow"));
  options.first_image_size = 16;
  EXPECT_THAT(refused(options, data::glyphs(64, 8)), HasSubstr("makes no images of other sizes"));
  const auto flat = [](Builder& nn, Value x) {
    return nn.linear(nn.flatten(x), {.out_features = 4, .name = "fc"});
  };
  EXPECT_THAT(refused(options, discs(64, 8, 32), flat),
              HasSubstr("`image_size`: for images of 16x16 the model's fc.weight is [4, 768], and "
                        "[4, 3072] for those of 32x32"));
  data::DataSplit data = discs(64, 8, 16);
  data.validation = data.validation->resized(32);
  EXPECT_THAT(refused(disc_options(), data, flat),
              HasSubstr("`eval_image_size`: for images of 32"));
}

TEST(ImageRecipes, WhatIsNotAnImageHasNoMirrorImage) {
  SelfCommunicator self;
  testing::DeviceContext context(self);
  TrainOptions options{.global_batch = 16, .micro_batch = 8, .steps = 1};
  options.tta = TestTimeAugmentation::flip;
  const auto table = [](Builder& nn, Value x) { return nn.linear(x, {.out_features = 2}); };
  class Numbers final : public data::Dataset {
   public:
    Numbers() {
      spec_.input = {{2}, DType::f32}, spec_.target = {{}, DType::i32}, spec_.classes = 2;
    }
    const data::SampleSpec& spec() const override { return spec_; }
    std::int64_t size() const override { return 32; }
    void load(std::uint64_t, std::int64_t, std::byte* x, std::byte* y) const override {
      std::fill_n(x, 8, std::byte{0});
      std::fill_n(y, 4, std::byte{0});
    }
    std::string describe() const override { return "numbers"; }
    std::uint64_t fingerprint() const override { return 1; }

   private:
    data::SampleSpec spec_;
  };
  const auto numbers = std::make_shared<const Numbers>();
  Trainer trainer(context, table, softmax_cross_entropy, options);
  try {
    trainer.fit({numbers, numbers});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("`tta` flip: expected images"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep
