// SPDX-License-Identifier: Apache-2.0
// Steps that are recorded and replayed give the bits of steps that are asked for kernel by kernel,
// on streams that do as late as they may, or as early, what they were asked for; and ask the device
// for one launch a micro-batch.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/sources.h"
#include "core/nn/zoo.h"
#include "parallel/input_stage.h"
#include "parallel/recorded_work.h"
#include "parallel/replica.h"
#include "parallel/self_communicator.h"
#include "parallel/trainer.h"
#include "parallel/training_feed.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/cuda_emulator/streams.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using emulator::StreamMode;

/// In whose mode streams work while it lives.
class ModeScope {
 public:
  explicit ModeScope(StreamMode mode) { emulator::set_stream_mode(mode); }
  ~ModeScope() { emulator::set_stream_mode(StreamMode::at_once); }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;
};

Value small_convnet(Builder& nn, Value x) {
  x = nn.conv2d(x, {.out_channels = 4, .kernel = 3, .stride = 4, .padding = 1});
  x = nn.dropout(nn.relu(nn.batch_norm(x)), 0.25f);
  return nn.linear(nn.flatten(x), {.out_features = 10});
}

/// Batches of 4 micro-batches of 4, then one of 10 samples, in turn; five rounds of them.
testing::SmallRun small_run() {
  testing::SmallRun run{small_convnet, data::glyphs(26, 5), {.global_batch = 16, .micro_batch = 4}};
  run.options.steps = 10;
  run.options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-3f};
  run.options.lr_schedule = {.kind = LrSchedule::Kind::cosine, .warmup_steps = 2};
  run.options.bucket_mb = 0.001;  // several
  run.options.log_every = 0;
  run.options.noise_scale_every = 0;
  run.options.workers = 1;
  return run;
}

void expect_equal_bits(testing::SmallRun run, Communicator& ranks) {
  run.options.record_steps = false;
  const TrainSummary asked = testing::train(run, ranks);
  EXPECT_EQ(asked.recorded_steps->pieces, 0);
  run.options.record_steps = true;
  for (const StreamMode mode : {StreamMode::at_once, StreamMode::late, StreamMode::others_first}) {
    const ModeScope scope(mode);
    const TrainSummary replayed = testing::train(run, ranks);
    EXPECT_EQ(replayed.weights_sha256, asked.weights_sha256) << int(mode);
    EXPECT_EQ(replayed.train_loss, asked.train_loss);
    EXPECT_EQ(replayed.val_loss, asked.val_loss);
    EXPECT_EQ(replayed.recorded_steps->why_not, "");
    EXPECT_GE(replayed.recorded_steps->replayed, run.options.steps / 2);
  }
}

TEST(RecordedSteps, EqualBits) {
  SelfCommunicator alone;
  expect_equal_bits(small_run(), alone);
}

TEST(RecordedSteps, EqualBitsWithFewerShardsAndClippedAdamw) {
  testing::SmallRun run = small_run();
  run.options.optimizer = Adamw{.lr = 1e-3f};
  run.options.clip_norm = 0.5f;
  run.options.shards = 2;
  SelfCommunicator alone;
  expect_equal_bits(run, alone);
}

// Micro-batches large enough to be copied beside the computing.
TEST(RecordedSteps, EqualBitsOfLargeInputs) {
  testing::SmallRun run = small_run();
  run.model = [](Builder& nn, Value x) {
    return nn.linear(nn.flatten(nn.max_pool2d(x, {.kernel = 16})), {.out_features = 5});
  };
  run.data = data::synthetic({.height = 256, .width = 256, .channels = 3, .classes = 5});
  run.options.global_batch = 12;
  run.options.micro_batch = 6;  // 1.1 MiB
  run.options.steps = 6;
  run.options.eval_every = 0;
  SelfCommunicator alone;
  expect_equal_bits(run, alone);
  const auto memory = testing::train(run, alone).memory;
  const auto communication = std::ranges::find(
      memory, "communication", &std::pair<std::string_view, std::uint64_t>::first);
  ASSERT_NE(communication, memory.end());
  EXPECT_GT(communication->second, 2 * InputStage::kLeastBytes) << "no stage for two of them";
}

TEST(RecordedSteps, EqualBitsOfATransformer) {
  testing::SmallRun run = testing::small_gpt();
  run.options.steps = 6;
  run.options.noise_scale_every = 0;
  run.options.log_every = 4;  // that step is measured, and asked for
  SelfCommunicator alone;
  expect_equal_bits(run, alone);
}

// Through the host: recorded in segments, which exchanges cut.
TEST(RecordedSteps, EqualBitsOfSeveralRanks) {
  expect_equal_bits(small_run(), testing::mpi_world());
}

// As with a CUDA-aware MPI: the device must have done what is sent, and wait for what comes.
TEST(RecordedSteps, EqualBitsWhereTheNetworkReachesTheDevice) {
  const testing::SmallRun run = small_run();
  const TrainSummary staged = testing::train(run, testing::mpi_world());
  for (const StreamMode mode : {StreamMode::late, StreamMode::others_first}) {
    const ModeScope scope(mode);
    testing::DeviceContext reached(testing::mpi_world(), DeviceReach::blocking);
    EXPECT_EQ(testing::train(run, reached).weights_sha256, staged.weights_sha256) << int(mode);
  }
}

TEST(RecordedSteps, SaysWhyNot) {
  testing::SmallRun run = small_run();
  run.options.profile = true;
  run.options.steps = 4;
  SelfCommunicator alone;
  const TrainSummary summary = testing::train(run, alone);
  EXPECT_EQ(summary.recorded_steps->pieces, 0);
  EXPECT_EQ(summary.recorded_steps->why_not, "--profile times every operator");
}

/// Pieces that add one to a number on the device.
class Pieces : public ::testing::Test {
 protected:
  static constexpr float kOne = 1;

  void add_one() { device_->add(number(), number(), number() + 1, 1); }
  float* number() { return memory_->as<float>(); }
  float value() {
    float value = 0;
    device_->copy_to_host(&value, number(), sizeof value);
    return value;
  }
  bool record(const std::function<void(WorkRecorder&)>& work, bool others_recorded = true) {
    return pieces_.record({.samples = 1}, {work, [=](bool own) { return own && others_recorded; }});
  }

  std::unique_ptr<Backend> device_ = testing::make_test_backend();
  std::unique_ptr<DeviceBuffer> memory_ = device_->allocate(2 * sizeof(float), "number and one");
  RecordedPieces pieces_{*device_};

  void SetUp() override { device_->copy_to_device(number() + 1, &kOne, sizeof kOne); }
};

TEST_F(Pieces, AreRecordedTheSecondTime) {
  const auto work = [&](WorkRecorder&) { add_one(); };
  EXPECT_FALSE(record(work)) << "the first time is for libraries to load";
  EXPECT_FALSE(pieces_.has_failed());
  EXPECT_EQ(value(), 0);
  EXPECT_TRUE(record(work));
  EXPECT_EQ(value(), 1) << "recording does the work once";
  pieces_.find({.samples = 1})->replay();
  EXPECT_EQ(value(), 2);
}

TEST_F(Pieces, AreCutWhereTheHostHasToWork) {
  std::vector<float> seen;
  const auto work = [&](WorkRecorder& recorder) {
    add_one();
    recorder.on_host([&] { seen.push_back(value()); });
    add_one();
  };
  record(work);
  EXPECT_TRUE(record(work));
  pieces_.find({.samples = 1})->replay();
  EXPECT_EQ(value(), 4);
  EXPECT_EQ(seen, (std::vector<float>{1, 3}));
}

TEST_F(Pieces, ThatCannotBeRecordedAreTriedOnce) {
  int calls = 0;
  const auto work = [&](WorkRecorder&) {
    ++calls;
    add_one();
    device_->synchronize();
  };
  record(work);
  EXPECT_FALSE(record(work));
  EXPECT_TRUE(pieces_.has_failed());
  EXPECT_THAT(pieces_.why_not(), ::testing::HasSubstr("cudaErrorStreamCapture"));
  EXPECT_EQ(value(), 0) << "nothing was done";
  add_one();
  EXPECT_EQ(value(), 1) << "the device goes on";
  EXPECT_FALSE(record(work));
  EXPECT_EQ(calls, 1);
}

TEST_F(Pieces, ThatAnotherRankCouldNotRecordAreNotDone) {
  const auto work = [&](WorkRecorder&) { add_one(); };
  record(work);
  EXPECT_FALSE(record(work, false));
  EXPECT_EQ(value(), 0);
  EXPECT_EQ(pieces_.why_not(), "another rank could not record a step");
  EXPECT_EQ(pieces_.find({.samples = 1}), nullptr);
}

TEST_F(Pieces, OfWhichPartIsDoneCannotBeTakenBack) {
  const auto work = [&](WorkRecorder& recorder) {
    recorder.on_host([] {});
    device_->synchronize();
  };
  record(work);
  try {
    record(work);
    FAIL() << "part of it is done twice";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("cudaErrorStreamCapture"));
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("LOCKSTEP_GRAPH=0"));
  }
  add_one();
  EXPECT_EQ(value(), 1) << "the device goes on";
}

/// Steps of two micro-batches, on this rank alone.
struct Steps {
  explicit Steps(const TrainOptions& options)
      : replica(context, small_convnet, softmax_cross_entropy, data->spec(), options, {}),
        schedule(replica.schedule(options.global_batch)),
        requests({data->size(), options.global_batch, 40, options.seed, schedule, schedule}),
        loader(data, loading(options), [this](data::LoadRequest& r) { return requests.next(r); }) {}
  data::LoaderOptions loading(const TrainOptions& options) const {
    data::LoaderOptions loading{.workers = 0, .micro_batch = options.micro_batch};
    replica.lend_memory(loading);
    return loading;
  }
  void train(int steps) {
    for (int i = 0; i < steps; ++i) replica.train_step(schedule, loader, next++, 0.01f);
  }

  SelfCommunicator alone;
  testing::DeviceContext context{alone};
  std::shared_ptr<const data::Dataset> data = data::glyphs(96, 16).train;
  Replica replica;
  Schedule schedule;
  TrainingRequests requests;
  data::Loader loader;
  std::int64_t next = 0;
};

TEST(RecordedSteps, OneLaunchAMicroBatchAndNoWaitForTheDevice) {
  TrainOptions options = small_run().options;
  options.global_batch = 8;
  options.micro_batch = 4;
  Steps steps(options);
  steps.train(4);
  const ModeScope late(StreamMode::late);
  emulator::reset_calls();
  constexpr int kSteps = 5, kMicroBatches = 2;
  steps.train(kSteps);
  const emulator::Calls calls = emulator::calls();
  EXPECT_EQ(calls.kernel_launches, 0);
  EXPECT_EQ(calls.graph_launches, kSteps * kMicroBatches);
  // Input, labels, their weight and the counters; and the outcome of the step.
  EXPECT_EQ(calls.copies, kSteps * (kMicroBatches * 4 + 1));
  // Until the micro-batch before last has been copied, and for the outcome of the step before.
  EXPECT_EQ(calls.host_waits, kSteps * (kMicroBatches + 1));
}

}  // namespace
}  // namespace lockstep
