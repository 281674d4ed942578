// SPDX-License-Identifier: Apache-2.0
// A loss that jumps sends the run back to its last checkpoint by steps, and on with other batches:
// on every number of ranks and after every interruption with the same bits.
#include <chrono>
#include <filesystem>
#include <optional>

#include "core/io/checkpoint/checkpoint.h"
#include "lockstep/training_feed.h"
#include "parallel/monitor/step_log.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/late_context.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_table.h"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr std::uint64_t kSpikeEpoch = 30;

TrainOptions rollback_options(const std::string& folder) {
  TrainOptions options = small_options();
  options.steps = 100;
  options.on_spike = OnSpike::rollback;
  options.checkpoint = {.folder = folder, .every_steps = 25, .keep = 2};
  return options;
}

/// One batch of epoch kSpikeEpoch is as if its first sample had been misread.
void misread(std::uint64_t epoch, std::int64_t i, float* features) {
  if (epoch == kSpikeEpoch && i == 9) features[0] = 1e6f;
}

TEST(Rollback, GoesBackAndLeavesTheBatchesOut) {
  const SharedFolder folder;
  const TrainOptions options = rollback_options(folder / "all");
  Notes notes;
  const TrainSummary summary = train(mpi_world(), misread, options, &notes);
  EXPECT_EQ(summary.steps, 100);
  EXPECT_EQ(summary.rollbacks, 1);
  EXPECT_EQ(summary.samples, 100 * kBatch);
  EXPECT_LT(summary.train_loss, 2);
  if (mpi_world().rank() == 0) {
    ASSERT_EQ(notes.rollbacks.size(), 1u);
    const RollbackRecord& record = notes.rollbacks[0];
    EXPECT_EQ(record.step, 50);
    EXPECT_THAT(record.spike_step, ::testing::AnyOf(61, 62));
    EXPECT_GT(record.loss, 100 * record.mean);
    EXPECT_EQ(record.skipped_batches, (io::BatchRange{50, record.spike_step}));
  }
  mpi_world().barrier();  // rank 0 saves after the last collective
  const io::CheckpointState state =
      io::verify_checkpoint(folder / "all/" + io::checkpoint_name(100));
  EXPECT_EQ(state.skipped_batches.size(), 1u);
  EXPECT_EQ(state.rollbacks, 1);

  const auto alone = mpi_world().split(mpi_world().rank(), 0);
  const std::string own = folder / fmt::format("alone_{}", mpi_world().rank());
  const TrainSummary single = train(*alone, misread, rollback_options(own));
  EXPECT_EQ(single.weights_sha256, summary.weights_sha256);
  TrainOptions ignoring = rollback_options(own + "_ignoring");
  ignoring.on_spike = OnSpike::ignore;
  EXPECT_NE(train(*alone, misread, ignoring).weights_sha256, summary.weights_sha256);
}

TEST(Rollback, ARunThatIsKilledBeforeOrBehindItEndsWithTheSameBits) {
  const SharedFolder folder;
  const TrainSummary whole = train(mpi_world(), misread, rollback_options(folder / "whole"));
  ASSERT_EQ(whole.rollbacks, 1);
  const int rank = mpi_world().rank();
  const auto alone = mpi_world().split(rank, 0);
  // Of the first pass; after the rollback to step 50; after the checkpoint of step 75.
  for (const auto& [epoch, resumed_at] :
       {std::pair(28, 50), std::pair(33, 50), std::pair(45, 75)}) {
    const std::string name = fmt::format("killed_{}", epoch);
    TrainOptions options = rollback_options(folder / name);
    if (rank == 0) {
      EXPECT_THROW(train(*alone, dies_in(epoch, misread), options), DataError);
    }
    mpi_world().barrier();
    options.checkpoint.resume = "auto";
    const TrainSummary resumed = train(mpi_world(), misread, options);
    EXPECT_EQ(resumed.resumed_at, resumed_at);
    EXPECT_EQ(resumed.rollbacks, 1);
    EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256) << name;
    EXPECT_EQ(resumed.samples, whole.samples);
  }
}

/// Ends after as many steps that were not spikes.
std::function<bool()> after_polls(int polls) {
  return [polls, asked = 0]() mutable { return ++asked >= polls; };
}

TEST(Rollback, ARunThatIsStoppedBeforeOrBehindItEndsWithTheSameBits) {
  const SharedFolder folder;
  TrainOptions options = rollback_options(folder / "whole");
  options.checkpoint.keep = 1;
  const TrainSummary whole = train(mpi_world(), misread, options);
  ASSERT_EQ(whole.rollbacks, 1);
  const int rank = mpi_world().rank();
  const auto alone = mpi_world().split(rank, 0);
  // On the checkpoint of step 50, between it and the spike, and after the rollback to it.
  for (const int polls : {50, 51, 55, 60, 65, 75}) {
    options.checkpoint.folder = folder / fmt::format("stopped_{}", polls);
    options.checkpoint.resume = "";
    if (rank == 0) {
      options.stop = after_polls(polls);
      const TrainSummary stopped = train(*alone, misread, options);
      EXPECT_TRUE(stopped.stopped && stopped.saved);
      EXPECT_EQ(stopped.rollbacks, polls > 61 ? 1 : 0);
    }
    mpi_world().barrier();
    options.stop = {};
    options.checkpoint.resume = "auto";
    const TrainSummary resumed = train(mpi_world(), misread, options);
    EXPECT_EQ(resumed.rollbacks, 1);
    EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256) << polls;
    mpi_world().barrier();
  }
}

TEST(Rollback, AStopRightBehindItSavesWhatWasLeftOut) {
  const SharedFolder folder;
  TrainOptions options = rollback_options(folder / "all");
  const TrainSummary whole = train(mpi_world(), misread, options);
  const int rank = mpi_world().rank();
  const auto alone = mpi_world().split(rank, 0);
  options.checkpoint.folder = folder / "stopped";
  if (rank == 0) {
    // The first poll of step 50 that comes again; before it, only the rollback has happened.
    struct Stopper final : TrainObserver {
      void on_rollback(const RollbackRecord&) override { rolled_back = true; }
      bool rolled_back = false;
    } stopper;
    options.stop = [&] { return stopper.rolled_back; };
    DeviceContext context(*alone);
    Trainer trainer(context, small_net, softmax_cross_entropy, options);
    trainer.add_observer(stopper);
    const TrainSummary stopped = trainer.fit({std::make_shared<SmallTable>(misread), nullptr});
    EXPECT_EQ(stopped.steps, 51);
    const std::string saved = options.checkpoint.folder + "/" + io::checkpoint_name(51);
    const io::CheckpointState state = io::verify_checkpoint(saved);
    EXPECT_EQ(state.skipped_batches.size(), 1u);
    EXPECT_EQ(state.rollback_base, 50);
  }
  mpi_world().barrier();
  options.stop = {};
  options.checkpoint.resume = "auto";
  EXPECT_EQ(train(mpi_world(), misread, options).weights_sha256, whole.weights_sha256);
}

TEST(Rollback, ValidationsAndTheirBestCheckpointsChangeNothing) {
  const SharedFolder folder;
  TrainOptions options = rollback_options("");
  options.global_batch = 24;  // three steps an epoch, the last of 16 samples
  options.micro_batch = 4;
  options.steps = 150;
  options.checkpoint.every_steps = 40;
  std::vector<std::string> weights;
  for (const int every : {0, 10, 7, -1}) {
    options.eval_every = every;
    options.checkpoint.folder = folder / fmt::format("eval_{}", every);
    Notes notes;
    DeviceContext context(mpi_world());
    Trainer trainer(context, small_net, softmax_cross_entropy, options);
    trainer.add_observer(notes);
    const TrainSummary summary =
        trainer.fit({std::make_shared<SmallTable>(misread), std::make_shared<SmallTable>(nullptr)});
    EXPECT_EQ(summary.rollbacks, 1);
    if (mpi_world().rank() == 0) {
      ASSERT_EQ(notes.rollbacks.size(), 1u);
      EXPECT_EQ(notes.rollbacks[0].step, 80);
      EXPECT_THAT(notes.rollbacks[0].spike_step,
                  ::testing::AllOf(::testing::Ge(91), ::testing::Le(93)));
    }
    weights.push_back(summary.weights_sha256);
  }
  EXPECT_THAT(weights, ::testing::Each(weights[0]));
  options.checkpoint.folder = folder / fmt::format("alone_{}", mpi_world().rank());
  const auto alone = mpi_world().split(mpi_world().rank(), 0);
  EXPECT_EQ(train(*alone, misread, options).weights_sha256, weights[0]);
}

TEST(Rollback, ADamagedCheckpointIsNamed) {
  const SharedFolder folder;
  TrainOptions options = rollback_options(folder / "checkpoints");
  const auto alone = mpi_world().split(mpi_world().rank(), 0);
  const std::string base = options.checkpoint.folder + "/" + io::checkpoint_name(50);
  if (mpi_world().rank() == 0) {
    options.stop = after_polls(55);
    train(*alone, misread, options);
    std::filesystem::remove(base + "/model.safetensors");
  }
  mpi_world().barrier();
  options.stop = {};
  options.checkpoint.resume = "auto";
  std::string error = "no error";
  try {
    train(mpi_world(), misread, options);
  } catch (const Error& caught) {
    error = caught.what();
  }
  EXPECT_THAT(error, HasSubstr("and the checkpoint to go back to cannot be read: " + base));
  expect_same_on_all_ranks(error);
}

TEST(Rollback, WhereLossesComeLateTheBitsAreTheSame) {
  const SharedFolder folder;
  for (const std::int64_t every : {25, 31}) {  // 31: due where the spike is not known yet
    TrainOptions options = rollback_options(folder / fmt::format("now_{}", every));
    options.checkpoint.every_steps = every;
    options.noise_scale_every = 1;
    options.log_every = 8;
    Notes now_notes, late_notes;
    const TrainSummary now = train(mpi_world(), misread, options, &now_notes);
    options.checkpoint.folder = folder / fmt::format("late_{}", every);
    LateContext context;
    const TrainSummary late = train(context, misread, options, &late_notes);
    EXPECT_EQ(late.rollbacks, 1);
    ASSERT_EQ(late_notes.rollbacks.size(), now_notes.rollbacks.size());
    if (mpi_world().rank() == 0) {
      ASSERT_EQ(now_notes.rollbacks.size(), 1u);
      EXPECT_EQ(late_notes.rollbacks[0].spike_step, now_notes.rollbacks[0].spike_step);
      EXPECT_EQ(late_notes.rollbacks[0].step, now_notes.rollbacks[0].step);
    }
    EXPECT_EQ(late.weights_sha256, now.weights_sha256);
    EXPECT_EQ(late_notes.noise_scales, now_notes.noise_scales);
    EXPECT_EQ(late.noise_scale, now.noise_scale);
    if (mpi_world().rank() == 0) {
      EXPECT_THAT(now_notes.noise_scales, ::testing::Contains(::testing::Ne(std::nullopt)));
    }
  }
}

TEST(Rollback, NeedsACheckpoint) {
  const SharedFolder folder;
  TrainOptions options = rollback_options(folder / "checkpoints");
  options.checkpoint.every_steps = 90;
  const std::string error = error_of(misread, options);
  EXPECT_THAT(error, HasSubstr("there is no checkpoint yet to go back to"));
  expect_same_on_all_ranks(error);
  options.checkpoint.every_steps = 0;
  options.checkpoint.every_seconds = 600;
  EXPECT_THROW(train(mpi_world(), misread, options), ConfigError);
}

TEST(Rollback, WhereItDoesNotHelpTheRunEnds) {
  const SharedFolder folder;
  TrainOptions options = rollback_options(folder / "checkpoints");
  options.checkpoint.every_steps = 60;
  options.steps = 1000;
  // From epoch 30 on every 51st batch at least is misread, so that step 120 is never reached.
  const auto again = [](std::uint64_t epoch, std::int64_t i, float* features) {
    if (epoch >= kSpikeEpoch && (epoch - kSpikeEpoch) % 26 == 0 && i == 9) features[0] = 1e6f;
  };
  const std::string error = error_of(again, options);
  EXPECT_THAT(error, HasSubstr("5 rollbacks to step 60 have not led to a new checkpoint"));
  expect_same_on_all_ranks(error);
}

TEST(Rollback, ItsTimeIsNoSteps) {
  DeviceContext context(mpi_world());
  const auto data = std::make_shared<SmallTable>(nullptr);
  const TrainOptions options = small_options();
  const Replica replica(context, small_net, softmax_cross_entropy, data->spec(), options, {});
  const Schedule schedule = replica.schedule(kBatch);
  const TrainingFeed feed(kSamples, kBatch, options.steps, options.seed, schedule, schedule);
  const data::Loader loader(data, {.workers = 0}, [](data::LoadRequest&) { return false; });
  StepLog log(ReplicaState::of(replica), feed, loader, 0, 0, {});
  const auto begin = std::chrono::steady_clock::now();
  const auto passes = [&begin](int milliseconds) {
    while (std::chrono::steady_clock::now() < begin + std::chrono::milliseconds(milliseconds)) {
    }
  };
  passes(1);
  log.step_done();
  const double before = log.process_seconds();
  passes(20);  // a checkpoint is read
  const double after = log.process_seconds();
  log.restart(0, {});
  log.step_done();
  // By the log's own clock: all but the rollback is the steps'.
  EXPECT_LE(log.spread().seconds(), log.process_seconds() - (after - before));
  EXPECT_GT(log.spread().seconds(), 0);
}

}  // namespace
}  // namespace lockstep
