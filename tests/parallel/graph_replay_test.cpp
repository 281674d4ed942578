// SPDX-License-Identifier: Apache-2.0
// Steps that are captured and replayed give the bits of steps that are launched eagerly,
// on streams that do as late as they may, or as early, what they were asked for; and ask the device
// for one launch a micro-batch. Tests named Alone are of one rank, and run on one.
#include <algorithm>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "core/base/env.h"
#include "core/step/h2d_staging.h"
#include "lockstep/data/sources.h"
#include "lockstep/replica.h"
#include "lockstep/trainer.h"
#include "lockstep/training_feed.h"
#include "lockstep/zoo.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/claimed_hosts.h"
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

/// Returns how many segments were captured last.
std::uint64_t expect_equal_bits(testing::SmallRun run, Communicator& ranks) {
  run.options.use_graphs = false;
  const TrainSummary eager = testing::train(run, ranks);
  EXPECT_EQ(eager.graph_use->graphs, 0);
  run.options.use_graphs = true;
  const bool switched_off = env().graph == "0";
  std::uint64_t graphs = 0;
  for (const StreamMode mode : {StreamMode::at_once, StreamMode::late, StreamMode::others_first}) {
    const ModeScope scope(mode);
    const TrainSummary replayed = testing::train(run, ranks);
    EXPECT_EQ(replayed.weights_sha256, eager.weights_sha256) << int(mode);
    EXPECT_EQ(replayed.train_loss, eager.train_loss);
    EXPECT_EQ(replayed.val_loss, eager.val_loss);
    EXPECT_EQ(replayed.graph_use->why_not, switched_off ? "LOCKSTEP_GRAPH=0" : "");
    EXPECT_GE(replayed.graph_use->replays, switched_off ? 0 : run.options.steps / 2);
    graphs = replayed.graph_use->graphs;
    EXPECT_EQ(graphs > 0, !switched_off);
  }
  return graphs;
}

TEST(GraphReplayAlone, EqualBits) {
  SelfCommunicator alone;
  expect_equal_bits(small_run(), alone);
}

TEST(GraphReplayAlone, EqualBitsWithFewerShardsAndClippedAdamw) {
  testing::SmallRun run = small_run();
  run.options.optimizer = AdamW{.lr = 1e-3f};
  run.options.clip_norm = 0.5f;
  run.options.shards = 2;
  SelfCommunicator alone;
  expect_equal_bits(run, alone);
}

TEST(GraphReplayAlone, EqualBitsOfClippedElementsAndUnits) {
  for (float TrainOptions::*clip : {&TrainOptions::clip_value, &TrainOptions::clip_agc}) {
    testing::SmallRun run = small_run();
    run.options.*clip = 0.01f;
    SelfCommunicator alone;
    expect_equal_bits(run, alone);
  }
}

TEST(GraphReplayAlone, EqualBitsOfOptimizersOfWholeTensors) {
  for (const Optimizer& optimizer :
       {Optimizer(Lars{}), Optimizer(Lamb{}), Optimizer(Muon{}), Optimizer(NorMuon{})}) {
    testing::SmallRun run = small_run();
    run.options.optimizer = optimizer;
    SelfCommunicator alone;
    expect_equal_bits(run, alone);
  }
}

/// 300 shards, and 119 of an epoch's last batch, in turn.
testing::SmallRun run_of_many_shards() {
  testing::SmallRun run = small_run();
  run.model = [](Builder& nn, Value x) {
    return nn.linear(nn.flatten(nn.max_pool2d(x, {.kernel = 7})), {.out_features = 10});
  };
  run.data = data::glyphs(419, 5);
  run.options.global_batch = 300;
  run.options.micro_batch = 1;
  run.options.shards = 300;
  run.options.steps = 6;
  run.options.bucket_mb = 0;
  return run;
}

TEST(GraphReplayAlone, EqualBitsOfManyShards) {
  SelfCommunicator alone;
  expect_equal_bits(run_of_many_shards(), alone);
}

TEST(GraphReplay, EqualBitsOfManyShardsOnSeveralRanks) {
  expect_equal_bits(run_of_many_shards(), testing::mpi_world());
}

// Micro-batches large enough to be copied beside the computing.
TEST(GraphReplayAlone, EqualBitsOfLargeInputs) {
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
  EXPECT_GT(communication->second, 2 * H2dStaging::kMinBytes) << "no stage for two of them";
}

TEST(GraphReplayAlone, EqualBitsOfATransformer) {
  testing::SmallRun run = testing::small_gpt();
  run.options.steps = 6;
  run.options.noise_scale_every = 0;
  run.options.log_every = 4;  // that step is measured, and launched eagerly
  SelfCommunicator alone;
  expect_equal_bits(run, alone);
}

// Through the host: captured in graphs that exchanges cut.
TEST(GraphReplay, EqualBitsOfSeveralRanks) { expect_equal_bits(small_run(), testing::mpi_world()); }

/// Every graph is cut at batch norm's statistics. The last rank has a round less than others of its
/// group in the epoch's last step.
testing::SmallRun run_of_shared_batch_norm() {
  testing::SmallRun run = small_run();
  run.options.batch_norm = BatchNormPolicy::parse("group:8");
  return run;
}

TEST(GraphReplay, EqualBitsOfBatchNormOverRanks) {
  Communicator& ranks = testing::mpi_world();
  const std::uint64_t graphs = expect_equal_bits(run_of_shared_batch_norm(), ranks);
  // Of a whole batch: each micro-batch but the last on its own, then the one that ends the step. Of
  // the epoch's last batch the one that ends it, or, where a round is missing, the micro-batch, if
  // there is one, the round without samples, and the exchange.
  const bool misses = ranks.rank() == ranks.size() - 1;
  const bool two = ranks.size() == 2;
  EXPECT_EQ(graphs, (two ? 2u : 1u) + (!misses ? 1u : two ? 3u : 2u));
}

// On the last rank, each of the first graphs in turn.
void expect_equal_bits_where_one_cannot_be_captured(testing::SmallRun run, int graphs) {
  run.options.use_graphs = false;
  const TrainSummary eager = testing::train(run, testing::mpi_world());
  run.options.use_graphs = true;
  Communicator& ranks = testing::mpi_world();
  const bool fails = ranks.rank() == ranks.size() - 1;
  for (int graph = 1; graph <= graphs; ++graph) {
    if (fails) emulator::spoil_capture(graph);
    const TrainSummary summary = testing::train(run, ranks);
    emulator::spoil_capture(0);
    EXPECT_EQ(summary.weights_sha256, eager.weights_sha256) << graph;
    EXPECT_EQ(summary.train_loss, eager.train_loss) << graph;
    const std::string& why_not = summary.graph_use->why_not;
    EXPECT_EQ(why_not.empty(), !fails) << graph;
    EXPECT_EQ(why_not.find("cudaErrorStreamCaptureInvalidated") != why_not.npos, fails) << why_not;
  }
}

// Of micro-batches, of a shard's sum, of buckets.
TEST(GraphReplay, EqualBitsWhereAGraphCannotBeCaptured) {
  expect_equal_bits_where_one_cannot_be_captured(small_run(), 6);
}

// All 15 there are: between statistics, in the round without samples, in the exchange behind it.
TEST(GraphReplay, EqualBitsWhereAGraphOfBatchNormOverRanksCannotBeCaptured) {
  expect_equal_bits_where_one_cannot_be_captured(run_of_shared_batch_norm(), 15);
}

/// More than a rank of small_run() sends.
constexpr std::uint64_t kBytesOfSmallBuckets = std::uint64_t{1} << 20;

/// Buckets above SmallBucketAllGather::kSmallBucketBytes: exchanged chunk by chunk beside backward.
testing::SmallRun run_of_large_buckets() {
  testing::SmallRun run = small_run();
  run.model = [](Builder& nn, Value x) {
    x = nn.relu(nn.linear(nn.flatten(x), {.out_features = 96}));
    x = nn.relu(nn.linear(x, {.out_features = 256}));
    return nn.linear(x, {.out_features = 10});
  };
  run.options.bucket_mb = 0.09;
  return run;
}

TEST(GraphReplay, EqualBitsOfLargeBuckets) {
  testing::Traffic chunks;
  testing::ClaimedHosts ranks(testing::mpi_world(), 1, chunks);
  expect_equal_bits(run_of_large_buckets(), ranks);
  EXPECT_GT(chunks.network_bytes, kBytesOfSmallBuckets);
}

// As with a CUDA-aware MPI: the device must have done what is sent, and wait for what comes.
TEST(GraphReplay, EqualBitsWhereTheNetworkReachesTheDevice) {
  const MpiSession session;
  const auto world = make_mpi_communicator(session, MpiExchange::messages);
  for (const testing::SmallRun& run :
       {small_run(), run_of_large_buckets(), run_of_shared_batch_norm()}) {
    const TrainSummary staged = testing::train(run, testing::mpi_world());
    for (const StreamMode mode : {StreamMode::late, StreamMode::others_first}) {
      const ModeScope scope(mode);
      testing::Traffic chunks;
      testing::ClaimedHosts ranks(*world, 1, chunks);
      testing::DeviceContext reached(ranks, DeviceReach::all_but_all_reduce);
      EXPECT_EQ(testing::train(run, reached).weights_sha256, staged.weights_sha256) << int(mode);
      EXPECT_EQ(chunks.network_bytes > kBytesOfSmallBuckets, run.options.bucket_mb > 0.05);
    }
  }
}

TEST(GraphReplayAlone, SaysWhyNot) {
  testing::SmallRun run = small_run();
  run.options.profile = true;
  run.options.steps = 4;
  SelfCommunicator alone;
  const TrainSummary summary = testing::train(run, alone);
  EXPECT_EQ(summary.graph_use->graphs, 0);
  EXPECT_EQ(summary.graph_use->why_not, "`profile` times every operator");
}

TEST(GraphReplayAlone, SaysWhyNotWhereEveryStepIsLogged) {
  testing::SmallRun run = small_run();
  run.options.log_every = 1;
  SelfCommunicator alone;
  const TrainSummary summary = testing::train(run, alone);
  EXPECT_EQ(summary.graph_use->graphs, 0);
  EXPECT_THAT(summary.graph_use->why_not, ::testing::HasSubstr("`log_every`"));
}

/// Steps of whole batches.
struct Steps {
  Steps(const TrainOptions& options, Communicator& ranks)
      : context(ranks),
        replica(context, small_convnet, softmax_cross_entropy, data->spec(), options, {}),
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

  testing::DeviceContext context;
  std::shared_ptr<const data::Dataset> data = data::glyphs(96, 16).train;
  Replica replica;
  Schedule schedule;
  TrainingRequests requests;
  data::Loader loader;
  std::int64_t next = 0;
};

TEST(GraphReplayAlone, OneLaunchAMicroBatchAndNoWaitForTheDevice) {
  TrainOptions options = small_run().options;
  options.global_batch = 8;
  options.micro_batch = 4;
  SelfCommunicator alone;
  Steps steps(options, alone);
  steps.train(4);
  const ModeScope late(StreamMode::late);
  emulator::reset_calls();
  constexpr int kSteps = 5, kMicroBatches = 2;
  steps.train(kSteps);
  const emulator::Calls calls = emulator::calls();
  EXPECT_EQ(calls.kernel_launches, 0);
  EXPECT_EQ(calls.graph_launches, kSteps * kMicroBatches);
  // Input, labels, their weight and the counters are one; and the outcome of the step.
  EXPECT_EQ(calls.copies, kSteps * (kMicroBatches + 1));
  // Until the micro-batch before last has been copied, and for the outcome of the step before.
  EXPECT_EQ(calls.host_waits, kSteps * (kMicroBatches + 1));
}

double parts_of(const StepTimes& times) {
  return times.data + times.copy + times.forward + times.backward + times.exposed_communication +
         times.optimizer + times.device_wait;
}

// The others wait for the last rank in the exchange, between their graphs.
TEST(GraphReplay, NoTimeIsCountedTwice) {
  Communicator& ranks = testing::mpi_world();
  TrainOptions options = small_run().options;
  options.micro_batch = 4;
  options.global_batch = 8 * ranks.size();
  Steps steps(options, ranks);
  steps.train(3);
  const StepTimes before = ReplicaState::of(steps.replica).times();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 8; ++i) {
    if (ranks.rank() + 1 == ranks.size())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    steps.train(1);
  }
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  const StepTimes after = ReplicaState::of(steps.replica).times();
  EXPECT_GT(steps.replica.graph_use()->replays, 8);
  EXPECT_GT(after.exposed_communication, before.exposed_communication);
  EXPECT_LE(parts_of(after) - parts_of(before), all.count());
}

}  // namespace
}  // namespace lockstep
