// SPDX-License-Identifier: Apache-2.0
// A loss that jumps sends the run back to its newest checkpoint, and on with other batches: on
// every number of ranks and behind every interruption with the same bits.
#include "core/io/checkpoint.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_table.h"
#include "tests/support/late_backend.h"

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
    EXPECT_EQ(record.left_out, (io::BatchRange{50, record.spike_step}));
  }
  mpi_world().barrier();  // rank 0 saves behind the last collective
  const io::CheckpointState state =
      io::verify_checkpoint(folder / "all/" + io::checkpoint_name(100));
  EXPECT_EQ(state.left_out.size(), 1u);
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
  // Of the first pass; behind the rollback to step 50; behind the checkpoint of step 75.
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

/// A device whose results come a step late, as a GPU's do.
class LateContext final : public RankContext {
 public:
  Backend& backend() override { return late_; }
  Communicator& communicator() override { return *staged_; }

 private:
  LateBackend late_{make_test_backend()};
  std::unique_ptr<Communicator> staged_ = make_staged_communicator(mpi_world(), late_);
};

TEST(Rollback, WhereLossesComeLateTheBitsAreTheSame) {
  const SharedFolder folder;
  for (const std::int64_t every : {25, 31}) {  // 31: due where the spike is not known yet
    TrainOptions options = rollback_options(folder / fmt::format("now_{}", every));
    options.checkpoint.every_steps = every;
    const TrainSummary now = train(mpi_world(), misread, options);
    options.checkpoint.folder = folder / fmt::format("late_{}", every);
    LateContext context;
    const TrainSummary late = train(context, misread, options);
    EXPECT_EQ(late.rollbacks, 1);
    EXPECT_EQ(late.weights_sha256, now.weights_sha256);
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

}  // namespace
}  // namespace lockstep
