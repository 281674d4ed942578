// SPDX-License-Identifier: Apache-2.0
// Ranks whose libraries would choose different algorithms run rank 0's, and give the bits of rank 0
// alone; where one cannot, all of them say so.
#include "parallel/replica/algorithm_broadcast.h"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/checkpoint/checkpoint.h"
#include "core/nn/trace.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "parallel/batch/fingerprint.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/memory/micro_batch_choice.h"
#include "parallel/replica/algorithm_file.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/cuda_emulator/library_limits.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The libraries of this rank while it lives.
class LimitsScope {
 public:
  explicit LimitsScope(const cuda::LibraryLimits& limits) { cuda::library_limits() = limits; }
  ~LimitsScope() { cuda::library_limits() = {}; }
  LimitsScope(const LimitsScope&) = delete;
  LimitsScope& operator=(const LimitsScope&) = delete;
};

bool is_first() { return testing::mpi_world().rank() == 0; }

Value small_convnet(Builder& nn, Value x) {
  x = nn.relu(nn.conv2d(x, {.out_channels = 4, .kernel = 3, .stride = 4, .padding = 1}));
  return nn.linear(nn.flatten(x), {.out_features = 10});
}

/// With a short last micro-batch in training and in evaluation.
testing::SmallRun small_run() {
  testing::SmallRun run{small_convnet, data::glyphs(26, 5), {.global_batch = 16, .micro_batch = 4}};
  run.options.steps = 4;
  run.options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f};
  run.options.log_every = 0;
  return run;
}

TrainSummary train_alone(const testing::SmallRun& run, const cuda::LibraryLimits& limits) {
  const LimitsScope scope(limits);
  SelfCommunicator self;
  return testing::train(run, self);
}

TrainSummary train_together(const testing::SmallRun& run,
                            const cuda::LibraryLimits& of_rank_0,
                            const cuda::LibraryLimits& of_others) {
  const LimitsScope scope(is_first() ? of_rank_0 : of_others);
  return testing::train(run, testing::mpi_world());
}

TEST(SharedChoices, RanksThatWouldChooseOtherwiseRunRank0s) {
  const testing::SmallRun run = small_run();
  const cuda::LibraryLimits forwards{.algorithm = 0}, backwards{.algorithm = 1};
  const TrainSummary expected[] = {train_alone(run, forwards), train_alone(run, backwards)};
  ASSERT_NE(expected[0].weights_sha256, expected[1].weights_sha256);
  const TrainSummary together[] = {train_together(run, forwards, backwards),
                                   train_together(run, backwards, forwards)};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(together[i].weights_sha256, expected[i].weights_sha256);
    EXPECT_EQ(together[i].val_loss, expected[i].val_loss);
  }
}

TEST(SharedChoices, WhatRank0LacksTheOthersDoWithout) {
  testing::SmallRun run = small_run();
  run.options.precision = Precision::bf16;
  const cuda::LibraryLimits less{.convolution_bias = false, .fp32_from_bf16 = false}, all;
  const std::string expected = train_alone(run, less).weights_sha256;
  ASSERT_NE(train_alone(run, all).weights_sha256, expected);
  EXPECT_EQ(train_together(run, less, all).weights_sha256, expected);
}

/// What `action` throws, as "message | hint".
template <typename Thrown = Error, typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Thrown& error) {
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

const auto kCannotFollow =
    AllOf(StartsWith("on rank 1: "),
          HasSubstr("rank 0 chose algorithm 1 for it, which this rank cannot run"),
          HasSubstr("GPUs of one model"));

TEST(SharedChoices, ARankThatCannotFollowEndsAllWithItsOperator) {
  const cuda::LibraryLimits newer{.algorithm = 1}, older{.algorithms = 1};
  const std::string error = error_of([&] { train_together(small_run(), newer, older); });
  EXPECT_THAT(error, kCannotFollow);
  EXPECT_THAT(error, HasSubstr("conv2d"));
}

TEST(SharedChoices, TheChoiceOfTheMicroBatchFollowsAsWell) {
  const LimitsScope scope(is_first() ? cuda::LibraryLimits{.algorithm = 1}
                                     : cuda::LibraryLimits{.algorithms = 1});
  testing::DeviceContext context(testing::mpi_world());
  const testing::SmallRun run = small_run();
  PlanRequest request{.model = run.model,
                      .loss = softmax_cross_entropy,
                      .data = run.data,
                      .options = run.options,
                      .ranks = context.size(),
                      .on_host = false};
  request.options.micro_batch = 0;
  EXPECT_THAT(error_of([&] { choose_micro_batch(context, request, {.bytes = ~std::uint64_t{0}}); }),
              kCannotFollow);
}

TEST(SharedChoices, TimedOnesAreRank0s) {
  testing::SmallRun run = small_run();
  const std::string untimed = train_alone(run, {}).weights_sha256;
  run.options.algorithms = Algorithms::timed;
  const std::string expected = train_alone(run, {.fastest = 1}).weights_sha256;
  ASSERT_NE(expected, untimed);
  EXPECT_EQ(train_together(run, {.fastest = 1}, {.fastest = 0}).weights_sha256, expected);
}

// Of 26 samples, 16 a step in micro-batches of 4: an epoch ends with 2.
TEST(SharedChoices, ThoseOfShortMicroBatchesAreNotTimed) {
  testing::DeviceContext context(testing::mpi_world());
  testing::SmallRun run = small_run();
  run.options.algorithms = Algorithms::timed;
  const LimitsScope scope({.fastest = 1});
  testing::train(run, context);
  const std::string choices = context.backend().choices();
  EXPECT_THAT(choices,
              HasSubstr("forward x 4x28x28x1 y 7x7x4 window 3x3 stride 4x4 padding 1x1 "
                        "groups 1 f32 -> f32\talgorithm 1\t"));
  EXPECT_THAT(choices,
              HasSubstr("forward x 2x28x28x1 y 7x7x4 window 3x3 stride 4x4 padding 1x1 "
                        "groups 1 f32 -> f32\talgorithm 0\t"));
}

/// In bf16 without dropout, for which the library has an attention.
testing::SmallRun small_transformer() {
  testing::SmallRun run = testing::small_gpt();
  run.model = nn::make_model(
      {.name = "gpt", .outputs = 31, .layers = 1, .heads = 2, .width = 32, .context = 16});
  run.options.precision = Precision::bf16;
  return run;
}

TEST(SharedChoices, ALibrarysAttentionIsTakenByAllRanksOrByNone) {
  testing::SmallRun run = small_transformer();
  const std::string own = train_alone(run, {.attention = {}}).weights_sha256;
  EXPECT_EQ(train_alone(run, {}).weights_sha256, own);
  run.options.algorithms = Algorithms::timed;
  const std::string librarys = train_alone(run, {}).weights_sha256;
  ASSERT_NE(librarys, own);
  EXPECT_EQ(train_together(run, {}, {}).weights_sha256, librarys);
  using Offers = std::vector<cuda::EmulatedOffer>;
  EXPECT_EQ(
      train_together(run, {.attention = Offers{cuda::EmulatedOffer::unsteady}}, {}).weights_sha256,
      own);
  EXPECT_THAT(error_of([&] { train_together(run, {}, {.attention = {}}); }),
              AllOf(StartsWith("on rank 1: attention"), HasSubstr("rank 0 chose kernel 0 for it")));
}

TEST(SharedChoices, AResumedRunKeepsThoseOfItsCheckpoint) {
  const testing::SharedFolder folder;
  testing::SmallRun run = small_run();
  run.options.algorithms = Algorithms::timed;
  const std::string expected = train_alone(run, {.fastest = 1}).weights_sha256;
  ASSERT_NE(train_alone(run, {.fastest = 0}).weights_sha256, expected);
  run.options.checkpoint = {.folder = folder / "run"};
  int asked = 0;
  run.options.stop = [&] { return ++asked == 2; };
  ASSERT_TRUE(train_together(run, {.fastest = 1}, {}).stopped);
  run.options.stop = {};
  run.options.checkpoint.resume = "auto";
  EXPECT_EQ(train_together(run, {.fastest = 0}, {}).weights_sha256, expected);
}

TEST(SharedChoices, ARunTakesThoseOfAFile) {
  const testing::SharedFolder folder;
  testing::SmallRun run = small_run();
  const std::string expected = train_alone(run, {.algorithm = 1}).weights_sha256;
  run.options.checkpoint = {.folder = folder / "run", .every_steps = 4};
  if (is_first()) train_alone(run, {.algorithm = 1});
  testing::mpi_world().barrier();
  const std::string file = folder / ("run/" + io::checkpoint_name(4) + "/" + kAlgorithmsFile);
  run = small_run();
  run.options.algorithms_file = file;
  EXPECT_EQ(train_together(run, {}, {}).weights_sha256, expected);
}

TEST(SharedChoices, AFileThatCannotBeTakenEndsAllRanks) {
  const testing::SharedFolder folder;
  testing::DeviceContext context(testing::mpi_world());
  const std::string file = folder / "algorithms.txt";
  const auto refused = [&](const std::string& content) {
    if (is_first()) std::ofstream(file) << content;
    TrainOptions options;
    options.algorithms_file = file;
    return error_of([&] { prepare_algorithms(context, options, ""); });
  };
  const std::string choices = "product 1x1x1\talgorithm 1\t\n";
  const auto text = [&](const std::string& device) {
    return "lockstep algorithms 1\t" + short_hash(choices) + "\t" + device + "\n" + choices;
  };
  EXPECT_THAT(refused(""), HasSubstr(file));
  EXPECT_THAT(refused("product"), HasSubstr(file));
  EXPECT_THAT(refused(text("cuda, another GPU")), HasSubstr("another GPU"));
  const std::string own = text(context.backend().device_class());
  EXPECT_THAT(refused(own.substr(0, own.size() - 1)), HasSubstr("changed or cut off"));
  TrainOptions options;
  options.algorithms_file = file + ".gone";
  EXPECT_THAT(error_of([&] { prepare_algorithms(context, options, ""); }), HasSubstr(".gone"));
}

TEST(SharedChoices, AnErrorOfOneRankIsEveryRanks) {
  testing::DeviceContext context(testing::mpi_world());
  for (const int faulting_rank : {0, 1}) {
    const auto fail = [&] {
      if (context.rank() == faulting_rank) throw OutOfMemory("arena: too large", "take less");
    };
    EXPECT_EQ(error_of<OutOfMemory>([&] { compile_with_broadcast_algorithms(context, fail); }),
              fmt::format("on rank {}: arena: too large | take less", faulting_rank));
  }
}

TEST(SharedChoices, AnErrorOfAllRanksIsSaidAsItIs) {
  testing::DeviceContext context(testing::mpi_world());
  const auto fail = [] { throw ConfigError("model: wrong"); };
  EXPECT_EQ(error_of<ConfigError>([&] { compile_with_broadcast_algorithms(context, fail); }),
            "model: wrong | ");
}

}  // namespace
}  // namespace lockstep
