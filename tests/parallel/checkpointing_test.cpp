// SPDX-License-Identifier: Apache-2.0
// Which checkpoints stay while the disk is slow or takes nothing.
#include "parallel/training/checkpointing.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/safetensors.h"
#include "core/nn/trace.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

constexpr double kNone = io::CheckpointState::kUnknown;

class CheckpointingTest : public ::testing::Test, public TrainObserver {
 protected:
  CheckpointingTest() {
    fs::remove_all(root_);
    data::SampleSpec samples;
    samples.input = {Shape{4}, DType::f32};
    samples.target = {Shape{}, DType::i32};
    samples.classes = 3;
    graph_ = trace(nn::make_model({.name = "mlp", .outputs = 3, .hidden = {8}}),
                   softmax_cross_entropy,
                   samples,
                   {.micro_batch = 2});
    space_ = lay_out(graph_, 1 << 20);
    values_.assign(std::size_t(space_.elems), 1.0f);
  }
  ~CheckpointingTest() override { fs::remove_all(root_); }

  /// `snapshots`: into memory, after every step in which none is being written.
  void begin(int keep, std::int64_t every_steps, bool snapshots = false) {
    if (snapshots) {
      fs::create_directories(memory_);
      fs::permissions(memory_, fs::perms::owner_all);
    }
    saving_ = std::make_unique<Checkpointing>(
        alone_,
        CheckpointOptions{.folder = folder_,
                          .every_steps = every_steps,
                          .keep = keep,
                          .snapshot_folder = snapshots ? memory_.string() : "",
                          .snapshot_seconds = 1e-9},
        SavedArrays{backend_, graph_, space_, {{"", values_.data()}}},
        io::CheckpointState{},
        std::vector<TrainObserver*>{this});
  }
  void step(std::int64_t step, double val_loss = kNone) {
    saving_->after_step(step, val_loss, [step] {
      io::CheckpointState state;
      state.step = step;
      return state;
    });
  }
  /// Goes on with `step` until `saves` have ended.
  void step_until(std::size_t saves, std::int64_t step_number) {
    for (int i = 0; i < 5000 && records_.size() < saves; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      step(step_number);
    }
    ASSERT_EQ(records_.size(), saves);
  }
  void on_checkpoint(const CheckpointRecord& record) override { records_.push_back(record); }

  const fs::path root_ = fs::path(::testing::TempDir()) /
                         (std::string("checkpointing_") +
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const fs::path folder_ = root_ / "checkpoints", memory_ = root_ / "memory";
  testing::NullBackend backend_;
  SelfCommunicator alone_;
  Graph graph_;
  FlatSpace space_;
  std::vector<float> values_;
  std::vector<CheckpointRecord> records_;
  std::unique_ptr<Checkpointing> saving_;
};

TEST_F(CheckpointingTest, TheBestStaysBesideTheNewest) {
  begin(1, 10);
  step(3, 0.5);
  step_until(1, 4);
  step(6, 0.7);
  step(10);
  step_until(2, 11);
  step(20);
  step_until(3, 21);
  EXPECT_THAT(io::steps_in(folder_), ElementsAre(3, 20));
  EXPECT_EQ(io::verify_checkpoint(folder_ / "step_00000020").best_step, 3);
}

TEST_F(CheckpointingTest, ABestOneWhileTheDiskIsBusyHoldsItsOwnWeights) {
  begin(1, 1000);
  values_.assign(values_.size(), 1.0f);
  step(1, 0.9);  // is being written, or not: both must do
  values_.assign(values_.size(), 2.0f);
  step(2, 0.8);
  values_.assign(values_.size(), 3.0f);
  step(3, 0.6);
  values_.assign(values_.size(), 4.0f);
  step(4, 0.7);
  EXPECT_TRUE(saving_->save_now(5, [] {
    io::CheckpointState state;
    state.step = 5;
    return state;
  }));
  EXPECT_THAT(io::steps_in(folder_), ElementsAre(3, 5));
  const io::SafetensorsReader best(folder_ / "step_00000003/model.safetensors");
  for (const io::TensorEntry& entry : best.entries())
    EXPECT_THAT(best.read<float>(entry.name), ::testing::Each(3.0f)) << entry.name;
  EXPECT_EQ(io::verify_checkpoint(folder_ / "step_00000005").best_val_loss, 0.6);
}

TEST_F(CheckpointingTest, SnapshotsLieBetweenCheckpointsAndDelayNone) {
  begin(100, 10, true);
  const auto train = [&](std::int64_t s) {
    values_.assign(values_.size(), float(s));
    step(s);
  };
  for (std::int64_t s = 1; s <= 100; ++s) {
    train(s);
    if (s % 10 != 0) continue;
    for (int i = 0; i < 5000 && std::int64_t(records_.size()) < s / 10; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      train(s + 1);
    }
    ASSERT_EQ(std::int64_t(records_.size()), s / 10);
    EXPECT_EQ(records_.back().step, s) << "one that was due has waited for a snapshot";
    EXPECT_EQ(records_.back().error, "");
  }
  saving_.reset();
  EXPECT_EQ(io::steps_in(folder_).size(), 10u);
  const std::vector<std::int64_t> snapshots = io::steps_in(memory_);
  ASSERT_THAT(snapshots, ::testing::SizeIs(1)) << "the newest stays";
  const fs::path newest = memory_ / io::checkpoint_name(snapshots[0]);
  EXPECT_EQ(io::verify_checkpoint(newest).step, snapshots[0]);
  const io::SafetensorsReader model(newest / "model.safetensors");
  for (const io::TensorEntry& entry : model.entries())
    EXPECT_THAT(model.read<float>(entry.name), ::testing::Each(float(snapshots[0])));
}

TEST_F(CheckpointingTest, SnapshotsOfStepsThatAreTakenBackAreRemoved) {
  begin(1, 1000, true);
  step(1);
  for (int i = 0; i < 5000 && io::steps_in(memory_).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(io::steps_in(memory_), ElementsAre(1));
  saving_->resolve();
  EXPECT_THAT(io::steps_in(memory_), ::testing::IsEmpty());
}

// A rollback goes back to one of them.
TEST_F(CheckpointingTest, WithRollbacksNoScheduledCheckpointIsOmitted) {
  begin(100, 2, true);
  saving_->wait_for_previous_saves();
  for (std::int64_t s = 1; s <= 40; ++s) step(s, s % 3 == 0 ? 1.0 / double(s) : kNone);
  saving_.reset();
  const std::vector<std::int64_t> saved = io::steps_in(folder_);
  for (std::int64_t s = 2; s <= 40; s += 2) EXPECT_THAT(saved, ::testing::Contains(s));
}

TEST_F(CheckpointingTest, AFolderThatOthersCanReadGetsNoSnapshots) {
  fs::create_directories(memory_);
  fs::permissions(memory_, fs::perms::owner_all | fs::perms::others_read);
  EXPECT_TRUE(lack_of_room(memory_.string(), 1));
  fs::permissions(memory_, fs::perms::owner_all);
  EXPECT_FALSE(lack_of_room(memory_.string(), 1));
  EXPECT_TRUE(lack_of_room(memory_.string(), std::uint64_t{1} << 60));
  EXPECT_TRUE(lack_of_room((memory_ / "none").string(), 1));
}

TEST_F(CheckpointingTest, SnapshotsCostAHalfPercentOfTheTime) {
  const SnapshotPace::Time start{};
  SnapshotPace pace(0, start);
  EXPECT_FALSE(pace.is_due(start));
  EXPECT_TRUE(pace.is_due(start + std::chrono::seconds(1)));
  pace.taken(0.01, start);
  pace.written(0.09);
  EXPECT_NEAR(pace.interval(), 20, 1e-9);
  pace.written(0);
  EXPECT_NEAR(pace.interval(), 2, 1e-9);
  pace.taken(0, start);
  pace.written(0);
  EXPECT_EQ(pace.interval(), SnapshotPace::kMinSeconds);
  SnapshotPace fixed(7, start);
  fixed.taken(100, start + std::chrono::seconds(2));
  fixed.written(100);
  EXPECT_EQ(fixed.interval(), 7);
  EXPECT_EQ(fixed.due_at(), start + std::chrono::seconds(9));
}

TEST_F(CheckpointingTest, SnapshotsThatCannotBeWrittenAreReportedOnce) {
  begin(1, 10, true);
  fs::remove_all(memory_);
  std::ofstream(memory_.string()) << "in the way";
  step(1);
  step_until(1, 2);
  EXPECT_TRUE(records_[0].in_memory);
  EXPECT_NE(records_[0].error, "");
  for (int s = 3; s < 10; ++s) step(s);
  step(10);
  step_until(2, 11);
  EXPECT_EQ(records_[1].error, "") << "checkpoints are written all the same";
  EXPECT_FALSE(records_[1].in_memory);
}

TEST_F(CheckpointingTest, ABestOneThatCouldNotBeWrittenTakesNobodysPlace) {
  begin(1, 10);
  step(5, 0.5);
  step_until(1, 6);
  const fs::path moved = root_ / "elsewhere";
  fs::rename(folder_, moved);
  std::ofstream(folder_.string()) << "in the way";
  step(7, 0.3);
  step_until(2, 8);
  EXPECT_NE(records_[1].error, "");
  fs::remove(folder_);
  fs::rename(moved, folder_);
  step(10);
  step_until(3, 11);
  EXPECT_THAT(io::steps_in(folder_), ElementsAre(5, 10)) << "the best whole one is gone";
  step(12, 0.4);
  step_until(4, 13);
  EXPECT_THAT(io::steps_in(folder_), ElementsAre(12)) << "it is the newest and the best";
}

}  // namespace
}  // namespace lockstep
