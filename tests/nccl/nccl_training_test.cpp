// SPDX-License-Identifier: Apache-2.0
// Whole trainings over a played NCCL, on streams in adverse orders, captured and replayed: the bits
// are those over MPI, launched eagerly.
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/env.h"
#include "lockstep/data/sources.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/memory/memory_plan.h"
#include "parallel/replica/communicator_warmup.h"
#include "tests/nccl/nccl_small_run.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/parallel/context_near.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/cuda_emulator/streams.h"

namespace lockstep {
namespace {

using emulator::StreamMode;
using ::testing::Contains;
using ::testing::HasSubstr;
using namespace testing;

void expect_bits_of_mpi(const SmallRun& run, Communicator& host = mpi_world()) {
  const TrainSummary over_mpi = [&] {
    SmallRun eager = run;
    eager.options.use_graphs = false;
    eager.options.sharding = Sharding::none;
    return train(eager, mpi_world());
  }();
  for (const StreamMode mode : {StreamMode::at_once, StreamMode::late, StreamMode::others_first}) {
    emulator::set_stream_mode(mode);
    NcclContext context(host);
    const TrainSummary over_nccl = train(run, context);
    emulator::set_stream_mode(StreamMode::at_once);
    EXPECT_EQ(over_nccl.weights_sha256, over_mpi.weights_sha256) << "streams: " << int(mode);
    EXPECT_EQ(over_nccl.train_loss, over_mpi.train_loss);
    EXPECT_EQ(over_nccl.val_loss, over_mpi.val_loss);
    EXPECT_EQ(over_nccl.graph_use->why_not, "");
    EXPECT_GT(over_nccl.graph_use->replays, 0);
  }
}

TEST(NcclTraining, EqualBits) { expect_bits_of_mpi(small_run()); }

// 300 shards, and 119 of the last batch of an epoch.
TEST(NcclTraining, EqualBitsOfManyShards) {
  SmallRun run{[](Builder& nn, Value x) { return nn.linear(nn.flatten(x), {.out_features = 10}); },
               data::glyphs(419, 5),
               {.global_batch = 300, .micro_batch = 1, .steps = 6}};
  run.options.shards = 300;
  run.options.log_every = run.options.noise_scale_every = 0;
  expect_bits_of_mpi(run);
}

/// Owners' collectives are captured with the update, norms among them.
SmallRun sharded_run() {
  SmallRun run = small_run();
  run.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {83}});
  run.options.optimizer = Lamb{};
  run.options.clip_norm = 0.5f;
  run.options.bucket_mb = 0.3;
  run.options.sharding = Sharding::optimizer;
  return run;
}

TEST(NcclTraining, EqualBitsOfAShardedOptimizer) { expect_bits_of_mpi(sharded_run()); }

// Messages of rounded weights are captured with the update as well.
TEST(NcclTraining, EqualBitsOfAShardedOptimizerInBf16) {
  SmallRun run = sharded_run();
  run.options.precision = Precision::bf16;
  expect_bits_of_mpi(run);
}

// Each turn's exchange is captured with the segment of its shard, and so is that of ranks that have
// none in the last turn.
SmallRun sharded_gradients() {
  SmallRun run = sharded_run();
  run.model =
      nn::make_model({.name = "mlp", .outputs = 10, .hidden = std::vector<std::int64_t>(8, 128)});
  run.options.bucket_mb = 0.05;
  run.options.micro_batch = 2;
  run.options.steps = 11;
  run.options.sharding = Sharding::gradients;
  return run;
}

/// Whose memory takes turns as well: Note [Gradient window].
void expect_divided(const SmallRun& run) {
  const PlanRequest request{.model = run.model,
                            .loss = softmax_cross_entropy,
                            .data = run.data,
                            .options = run.options,
                            .ranks = mpi_world().size(),
                            .on_host = false};
  EXPECT_GT(plan_memory(device(), request, mpi_world().rank()).gradient_window_bytes, 0u);
}

TEST(NcclTraining, EqualBitsOfShardedGradients) {
  expect_divided(sharded_gradients());
  expect_bits_of_mpi(sharded_gradients());
}

TEST(NcclTraining, EqualBitsOfShardedGradientsInBf16) {
  SmallRun run = sharded_gradients();
  run.options.precision = Precision::bf16;
  run.options.shards = 5;  // of which some have more micro-batches than others
  expect_bits_of_mpi(run);
}

// On the last rank, of one segment after the other: where collectives are captured, all ranks do
// without one that they stand in, and after a step's last without any further; else it alone does.
void expect_bits_where_captures_fail(SmallRun run, int captures) {
  run.options.use_graphs = false;
  const TrainSummary over_mpi = train(run, mpi_world());
  run.options.use_graphs = true;
  const bool fails = mpi_world().rank() == mpi_world().size() - 1;
  int agreed = 0;
  for (int capture = 1; capture <= captures; ++capture) {
    if (fails) emulator::spoil_capture(capture);
    NcclContext context;
    const TrainSummary summary = train(run, context);
    emulator::spoil_capture(0);
    EXPECT_EQ(summary.weights_sha256, over_mpi.weights_sha256) << capture;
    EXPECT_EQ(summary.train_loss, over_mpi.train_loss) << capture;
    const std::string& why_not = summary.graph_use->why_not;
    if (fails)
      EXPECT_THAT(why_not, HasSubstr("cudaErrorStreamCaptureInvalidated")) << capture;
    else if (why_not == "another rank could not capture a step")
      ++agreed;
    else
      EXPECT_EQ(why_not, "") << capture;
  }
  EXPECT_EQ(agreed > 0, !fails && env().graph == "nccl");
}

TEST(NcclTraining, EqualBitsWhereASegmentCannotBeCaptured) {
  SmallRun run = small_run();
  run.options.micro_batch = 2;
  expect_bits_where_captures_fail(run, mpi_world().size() == 2 ? 5 : 3);
}

TEST(NcclTraining, EqualBitsWhereATurnCannotBeCaptured) {
  expect_bits_where_captures_fail(sharded_gradients(), 3);
}

TEST(NcclTraining, EqualBitsWhereARoundOfBatchNormCannotBeCaptured) {
  SmallRun run = small_run();
  run.options.batch_norm = BatchNormPolicy::parse("group:8");
  expect_bits_where_captures_fail(run, 3);
}

std::atomic<const Position*> watched{nullptr};
std::atomic<int> unnamed{0};
void look_at_position() {
  const Position* const position = watched;
  if (position == nullptr) return;
  const PositionNote note = position->read();
  if (note.collective.name != nullptr) return;
  if (unnamed++ == 0)
    ADD_FAILURE() << "waits for other ranks, and says not so: step " << note.step << ", "
                  << name_of(note.stage) << ' ' << name_of(note.phase);
}

// Streams that are late do nothing until the host waits for it.
TEST(NcclTraining, WhereverTheHostWaitsForOtherRanksItSaysSo) {
  SmallRun run = small_run();
  const SharedFolder folder;
  run.options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 2};
  run.options.check_replicas_every = 3;
  run.options.global_batch = 4 * mpi_world().size();  // the last leaves a rank without work
  emulator::set_stream_mode(StreamMode::late);
  NcclContext context;
  fake().moves = look_at_position;
  watched = &context.position();
  train(run, context);
  watched = nullptr;
  fake().moves = nullptr;
  emulator::set_stream_mode(StreamMode::at_once);
}

TEST(NcclTraining, EqualBitsOfSeveralShardsARank) {
  SmallRun run = small_run();
  run.options.micro_batch = 2;
  run.options.optimizer = AdamW{.lr = 1e-3f};
  run.options.clip_norm = 0.5f;
  expect_bits_of_mpi(run);
}

// The short last batches leave a rank of a group without its last micro-batch.
TEST(NcclTraining, EqualBitsOfBatchNormOverRanks) {
  SmallRun run = small_run();
  run.options.batch_norm = BatchNormPolicy::parse("group:8");
  expect_bits_of_mpi(run);
}

TEST(NcclTraining, NoGraphsOfVeryManyRoundsOfBatchNorm) {
  const int ranks = mpi_world().size();
  SmallRun run = small_run();
  run.options.batch_norm = BatchNormPolicy::parse("group:2");
  run.options.micro_batch = 1;
  run.options.global_batch = 32 * ranks;  // 32 rounds
  run.options.steps = 3;
  run.options.eval_every = 0;
  run.data = data::glyphs(32 * ranks, 5);
  NcclContext context;
  const TrainSummary summary = train(run, context);
  EXPECT_EQ(summary.graph_use->graphs, 0);
  EXPECT_THAT(summary.graph_use->why_not, HasSubstr("32 micro-batches a step on a rank"));
}

// With evaluations that only some ranks have work for, and packed copies of weights.
TEST(NcclTraining, EqualBitsOfBf16) {
  SmallRun run = small_run();
  run.options.global_batch = 4 * mpi_world().size();
  run.options.precision = Precision::bf16;
  expect_bits_of_mpi(run);
}

// Micro-batches that ranks have unequally many of, evaluation between the steps, which leaves
// packed copies of weights stale, and the last batch short: ranks must still capture and replay
// together.
TEST(NcclTraining, EqualBitsOfBf16WithUnequalWork) {
  SmallRun run = small_run();
  run.options.global_batch = 4 * (mpi_world().size() + 1);
  run.options.precision = Precision::bf16;
  run.options.log_every = 0;
  run.options.noise_scale_every = 0;
  run.options.eval_every = 2;
  expect_bits_of_mpi(run);
}

/// Ranks that say they are on hosts of two, where there are several such hosts.
class NcclTwoLevels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mpi_world().size() < 4) GTEST_SKIP() << "needs two hosts of two ranks";
  }
  Traffic traffic_;
  ClaimedHosts hosts_{mpi_world(), 2, traffic_};
};

/// What the plan of such a run counts as context and libraries, now.
std::uint64_t planned_context(const SmallRun& run) {
  const PlanRequest request{.model = run.model,
                            .loss = softmax_cross_entropy,
                            .data = run.data,
                            .options = run.options,
                            .ranks = mpi_world().size(),
                            .on_host = false};
  return plan_memory(device(), request, mpi_world().rank()).table[MemoryCategory::context].value();
}

/// What training and evaluation first need in step 1 they could not get on a full device.
void expect_all_connected_before_step_1(SmallRun run, Communicator& host) {
  NcclContext context(host);
  const std::uint64_t free = *device().memory().free;
  const int before = fake().connections;
  const std::uint64_t later =
      bytes_of_collectives(context, run.options, plan_batch(run.options, context.size()));
  const auto trial = std::uint64_t(fake().connections - before) * FakeNccl::kConnection;
  const std::uint64_t library_keeps = free - *device().memory().free;
  EXPECT_EQ(later + library_keeps, trial);

  run.options.steps = 6;
  const std::uint64_t planned = planned_context(run);
  const int before_training = fake().connections;
  int at_start = 0;
  run.options.accepted = [&](bool) { at_start = fake().connections; };
  Trainer trainer(context, run.model, softmax_cross_entropy, run.options);
  const TrainSummary summary = trainer.fit(run.data);
  EXPECT_EQ(fake().connections, at_start) << "some way was new to a step";
  const int connected = at_start - before_training;
  EXPECT_THAT(summary.memory,
              Contains(context_near(planned + std::uint64_t(connected) * FakeNccl::kConnection)));
}

TEST(NcclTraining, AllIsConnectedBeforeStep1) {
  expect_all_connected_before_step_1(small_run(), mpi_world());
}

TEST(NcclTraining, OwnersAreConnectedBeforeStep1) {
  expect_all_connected_before_step_1(sharded_run(), mpi_world());
}

TEST(NcclTraining, GroupsOfBatchNormAreConnectedBeforeStep1) {
  SmallRun run = small_run();
  run.options.batch_norm = BatchNormPolicy::parse("group:8");
  expect_all_connected_before_step_1(run, mpi_world());
}

TEST_F(NcclTwoLevels, AllIsConnectedBeforeStep1) {
  expect_all_connected_before_step_1(small_run(), hosts_);
}

TEST_F(NcclTwoLevels, EqualBits) { expect_bits_of_mpi(small_run(), hosts_); }

// In chunks, on two streams, which graphs hold.
TEST_F(NcclTwoLevels, EqualBitsOfLargeBuckets) {
  SmallRun run = small_run();
  run.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {96, 256}});
  run.options.bucket_mb = 0.09;
  expect_bits_of_mpi(run, hosts_);
}

// Weights go across hosts on the stream of the network, and graphs hold that.
TEST_F(NcclTwoLevels, EqualBitsOfAShardedOptimizer) { expect_bits_of_mpi(sharded_run(), hosts_); }

TEST_F(NcclTwoLevels, EqualBitsOfAShardedOptimizerInBf16) {
  SmallRun run = sharded_run();
  run.options.precision = Precision::bf16;
  expect_bits_of_mpi(run, hosts_);
}

TEST_F(NcclTwoLevels, EqualBitsOfShardedGradients) {
  expect_bits_of_mpi(sharded_gradients(), hosts_);
}

TEST_F(NcclTwoLevels, OwnersAreConnectedBeforeStep1) {
  expect_all_connected_before_step_1(sharded_run(), hosts_);
}

/// What of others a start asks for, on this rank.
struct StartCost {
  int ids = 0, communicators = 0, pairs = 0;
};
StartCost cost_of_start(const SmallRun& run, Communicator& host) {
  const FakeNccl& played = fake();
  const int ids = played.ids, joined = played.joined, pairs = played.pairs;
  NcclContext context(host);
  warm_up_connections(context);
  const int connected = played.pairs - pairs;
  bytes_of_collectives(context, run.options, plan_batch(run.options, context.size()));
  train(run, context);
  return {played.ids - ids, played.joined - joined, connected};
}

// One communicator of all ranks, that of the trial's exchange and that of the run's: ranks meet
// over an address for the first alone.
TEST(NcclTraining, RanksMeetOnceInAStart) {
  const StartCost cost = cost_of_start(small_run(), mpi_world());
  EXPECT_EQ(cost.ids, mpi_world().rank() == 0 ? 1 : 0);
  EXPECT_EQ(cost.communicators, 1) << "on one level all is done by that of all ranks";
  EXPECT_EQ(cost.pairs, mpi_world().size() - 1);
}

// Training and evaluation share a host's communicator and one across hosts; the trial has its own.
TEST_F(NcclTwoLevels, RanksMeetOnceInAStart) {
  const StartCost cost = cost_of_start(small_run(), hosts_);
  EXPECT_EQ(cost.ids, mpi_world().rank() == 0 ? 1 : 0);
  EXPECT_EQ(cost.communicators, 1 + 2 + 2);
  EXPECT_EQ(cost.pairs, 1 + 1) << "with one rank of its host, and one of its place";
}

/// Every rank leaves a training whose network fails in a replay, although graphs hold collectives.
void expect_an_error_from_replays(Communicator& host) {
  SmallRun run = small_run();
  run.options.steps = 100;
  const int aborted = fake().aborted;
  {
    NcclContext context(host);
    fake().fails_at_replay = fake().replays + 30;
    try {
      train(run, context);
      ADD_FAILURE() << "it trained to the end, with " << fake().replays << " replays";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("connection closed by remote peer"));
    }
    fake().fails_at_replay = 0;
  }
  EXPECT_GT(fake().aborted, aborted);
  EXPECT_EQ(fake().aborts_ended, fake().aborted) << "an abort hangs in a graph";
}

TEST(NcclTraining, AnErrorInReplaysEndsEveryRank) { expect_an_error_from_replays(mpi_world()); }

TEST_F(NcclTwoLevels, AnErrorInReplaysEndsEveryRank) { expect_an_error_from_replays(hosts_); }

TEST(NcclTraining, FastSumsTrainAsWell) {
  SmallRun run = small_run();
  run.options.reduction = Reduction::fast;
  NcclContext context;
  const TrainSummary summary = train(run, context);
  EXPECT_EQ(summary.graph_use->why_not, "");
  EXPECT_LT(summary.train_loss, 3);
}

}  // namespace
}  // namespace lockstep
