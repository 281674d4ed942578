// SPDX-License-Identifier: Apache-2.0
// Snapshots in the memory of several hosts: each has whole ones, and a run that resumes finds the
// newest, whichever host has it. Hosts are played by folders.
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

#include "core/io/checkpoint/checkpoint_names.h"
#include "core/nn/trace.h"
#include "lockstep/replica.h"
#include "lockstep/zoo.h"
#include "parallel/replica/replica_state.h"
#include "parallel/training/checkpointing.h"
#include "parallel/training/resume.h"
#include "tests/parallel/file_limit.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::FileLimit;
using ::testing::HasSubstr;
using testing::SharedFolder;
using testing::SmallRun;

Communicator& world() { return testing::mpi_world(); }
bool leads() { return world().rank() == 0; }
/// The first host has two ranks, the others one or two.
int host_of(int rank) { return rank / 2; }
int hosts() { return host_of(world().size() - 1) + 1; }

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class HostSnapshots : public ::testing::Test {
 protected:
  HostSnapshots() {
    if (leads())
      for (int host = 0; host < hosts(); ++host) {
        fs::create_directories(memory_of(host));
        fs::permissions(memory_of(host), fs::perms::owner_all);
      }
    world().barrier();
  }
  std::string memory_of(int host) const { return folder_ / fmt::format("host{}", host); }
  std::string memory() const { return memory_of(host_of(world().rank())); }
  std::string disk() const { return folder_ / "checkpoints"; }
  fs::path snapshot(int host, std::int64_t step) const {
    return fs::path(memory_of(host)) / io::checkpoint_name(step);
  }

  const SharedFolder folder_;
};

// --- Written ---

class Records final : public TrainObserver {
 public:
  void on_checkpoint(const CheckpointRecord& record) override { records.push_back(record); }
  std::vector<CheckpointRecord> records;
};

/// Saves of arrays without a training, step by step, on all ranks.
class WrittenHostSnapshots : public HostSnapshots {
 protected:
  WrittenHostSnapshots() {
    data::SampleSpec samples;
    samples.input = {Shape{40}, DType::f32};
    samples.target = {Shape{}, DType::i32};
    samples.classes = 3;
    graph_ = trace(nn::make_model({.name = "mlp", .outputs = 3, .hidden = {40, 40, 40, 40}}),
                   softmax_cross_entropy,
                   samples,
                   {.micro_batch = 2});
    space_ = lay_out(graph_, 1 << 20);
    values_.assign(std::size_t(space_.elems), 1.0f);
    saving_.emplace(world(),
                    CheckpointOptions{.folder = disk(),
                                      .every_steps = 1000,
                                      .snapshot_folder = memory(),
                                      .snapshot_seconds = 1e-9,
                                      .texts = {{"config.toml", "a = 1\n"}}},
                    SavedArrays{backend_, graph_, space_, {{"", values_.data()}}},
                    io::CheckpointState{},
                    std::vector<TrainObserver*>{&records_});
    agreement_.emplace(
        world(), std::function<bool()>(), std::vector<MessagePart*>{&saving_->message()});
  }
  /// Whether a copy was taken.
  bool step() {
    ++step_;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    agreement_->poll(true);
    return saving_->after_step(step_, io::CheckpointState::kUnknown, [this] { return state(); });
  }
  std::optional<io::CheckpointState> state() const {
    io::CheckpointState state;
    state.step = step_;
    state.wall_s = 0.1 * double(step_);  // not a short binary number
    state.settings = {{"seed", "1"}};
    return state;
  }
  template <typename Condition>
  bool step_until(Condition condition) {
    for (int i = 0; i < 20'000; ++i) {
      bool met = condition();
      world().broadcast(&met, sizeof met, 0);
      if (met) return true;
      step();
    }
    return false;
  }

  testing::NullBackend backend_;
  Graph graph_;
  FlatSpace space_;
  std::vector<float> values_;
  Records records_;
  std::int64_t step_ = 0;
  std::optional<Checkpointing> saving_;
  std::optional<StopAgreement> agreement_;
};

TEST_F(WrittenHostSnapshots, EachHostHasAllOfTheState) {
  ASSERT_EQ(saving_->why_no_snapshots(), "");
  const SavedArrays saved{backend_, graph_, space_, {{"", values_.data()}}};
  const int ranks_here = std::min(2, world().size() - 2 * host_of(world().rank()));
  const FlatRange part = snapshot_parts(saved, ranks_here)[std::size_t(world().rank() % 2)];
  EXPECT_EQ(saving_->memory_bytes(),
            Checkpointing::memory_bytes(saved, world().size(), world().rank()) +
                copied_bytes(saved, part));
  EXPECT_TRUE(step_until([&] { return saving_->snapshots() >= 3; }));
  agreement_.reset();
  saving_.reset();  // waits for those that are being written
  world().barrier();
  std::map<std::int64_t, std::string> digests;
  for (int host = 0; host < hosts(); ++host) {
    const std::vector<std::int64_t> steps = io::steps_in(memory_of(host));
    ASSERT_EQ(steps.size(), 1u) << "host " << host;
    const io::CheckpointState state = io::verify_checkpoint(snapshot(host, steps[0]));
    EXPECT_EQ(state.wall_s, 0.1 * double(steps[0]));
    EXPECT_TRUE(fs::exists(snapshot(host, steps[0]) / "config.toml"));
    const std::string digest = io::checkpoint_digest(snapshot(host, steps[0]));
    EXPECT_EQ(digests.try_emplace(steps[0], digest).first->second, digest) << "host " << host;
  }
  EXPECT_TRUE(records_.records.empty());
}

TEST_F(WrittenHostSnapshots, WhatFailsOnAnotherHostEndsThem) {
  EXPECT_TRUE(step_until([&] { return saving_->snapshots() >= 1; }));
  {
    const FileLimit limit;
    if (world().rank() == world().size() - 1) limit.set(500);
    EXPECT_TRUE(step_until([&] { return !records_.records.empty(); }));
  }
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(step());
  if (leads()) {
    ASSERT_EQ(records_.records.size(), 1u);
    EXPECT_TRUE(records_.records[0].in_memory);
    EXPECT_THAT(records_.records[0].error, HasSubstr(fmt::format("rank {}: ", world().size() - 1)));
    EXPECT_THAT(records_.records[0].error, HasSubstr("File too large"));
  }
  // The disk stays.
  EXPECT_TRUE(saving_->save_now(step_, [this] { return state(); }));
  if (leads()) {
    EXPECT_THAT(io::steps_in(disk()), ElementsAre(step_));
  }
}

TEST_F(HostSnapshots, OneThatIsOpenToOthersIsNamed) {
  if (leads()) fs::permissions(memory_of(hosts() - 1), fs::perms::all);
  world().barrier();
  const SnapshotHosts found = find_snapshot_hosts(world(), memory());
  EXPECT_THAT(found.why_none, HasSubstr("open to other users"));
  EXPECT_THAT(found.why_none, HasSubstr(fmt::format("rank {} on ", 2 * (hosts() - 1))));
}

// --- Resumed from ---

SmallRun run_of_many_arrays() {
  SmallRun run{nn::make_model({.name = "mlp", .outputs = 10, .hidden = {300, 140}}),
               data::glyphs(64, 16),
               {.global_batch = 30, .micro_batch = 4, .steps = 6}};
  run.options.optimizer = AdamW{.lr = 0.01f};
  run.options.ema = {.decay = 0.9f};
  run.options.log_every = 0;
  run.options.on_spike = OnSpike::rollback;  // all checkpoints that are due are saved
  return run;
}

class ResumedHostSnapshots : public HostSnapshots {
 protected:
  /// Checkpoints of all steps, to be put where a fault would have left them.
  void train_undisturbed(SmallRun run) {
    run.options.checkpoint = {.folder = folder_ / "all", .every_steps = 1, .keep = 10};
    whole_ = testing::train(run, world()).weights_sha256;
  }
  void put(const std::string& into, std::int64_t step) const {
    fs::create_directories(into);
    fs::copy(fs::path(folder_ / "all") / io::checkpoint_name(step),
             fs::path(into) / io::checkpoint_name(step));
  }
  CheckpointOptions options() const {
    return {.folder = disk(),
            .every_steps = 1,
            .keep = 10,
            .snapshot_folder = memory(),
            .resume = "auto"};
  }
  /// On all ranks alike; -1: from the start.
  std::int64_t resumed_step() const {
    world().barrier();
    const auto point = find_resume_point(world(), options());
    world().barrier();
    return point ? point->record.step : -1;
  }
  void expect_all_hosts_have(std::int64_t step) const {
    for (int host = 0; host < hosts(); ++host) {
      EXPECT_THAT(io::steps_in(memory_of(host)), ElementsAre(step)) << "host " << host;
      EXPECT_EQ(io::verify_checkpoint(snapshot(host, step)).step, step);
    }
  }

  std::string whole_;
};

TEST_F(ResumedHostSnapshots, TheNewestOfAllHosts) {
  train_undisturbed(run_of_many_arrays());
  EXPECT_EQ(resumed_step(), -1);
  if (leads()) {  // it was written on the last host alone
    put(disk(), 1);
    put(memory_of(0), 3);
    put(memory_of(hosts() - 1), 4);
  }
  EXPECT_EQ(resumed_step(), 4);
  expect_all_hosts_have(4);
  EXPECT_EQ(resumed_step(), 4) << "where all have it";
  world().barrier();
  if (leads()) fs::remove_all(snapshot(0, 4));  // a host that is new
  EXPECT_EQ(resumed_step(), 4);
  expect_all_hosts_have(4);
  world().barrier();
  if (leads()) put(disk(), 5);
  EXPECT_EQ(resumed_step(), 5);
  SmallRun run = run_of_many_arrays();
  run.options.checkpoint = options();
  EXPECT_EQ(testing::train(run, world()).weights_sha256, whole_);
}

TEST_F(ResumedHostSnapshots, ADamagedOneIsReplaced) {
  train_undisturbed(run_of_many_arrays());
  if (leads()) {
    for (int host = 0; host < hosts(); ++host) put(memory_of(host), 4);
    fs::resize_file(snapshot(0, 4) / "model.safetensors", 1000);
  }
  EXPECT_EQ(resumed_step(), 4);
  expect_all_hosts_have(4);
  SmallRun run = run_of_many_arrays();
  run.options.sharding = Sharding::optimizer;
  run.options.checkpoint = options();
  EXPECT_EQ(testing::train(run, world()).weights_sha256, whole_);
}

/// With a sharded optimizer each host's ranks collect what all ranks own.
TEST_F(ResumedHostSnapshots, OfAShardedOptimizer) {
  train_undisturbed(run_of_many_arrays());
  SmallRun run = run_of_many_arrays();
  run.options.steps = 5;
  run.options.eval_every = 1;  // ranks meet after each step
  run.options.sharding = Sharding::optimizer;
  run.options.on_spike = OnSpike::ignore;
  run.options.checkpoint = {
      .folder = disk(), .snapshot_folder = memory(), .snapshot_seconds = 1e-9};
  const TrainSummary summary = testing::train(run, world());
  if (leads()) {
    EXPECT_GT(summary.snapshots, 0);
  }
  world().barrier();
  for (int host = 0; host < hosts(); ++host) {
    const std::vector<std::int64_t> steps = io::steps_in(memory_of(host));
    ASSERT_EQ(steps.size(), 1u) << "host " << host;
    const fs::path whole = fs::path(folder_ / "all") / io::checkpoint_name(steps[0]);
    for (const char* name : {io::kModelFile, io::kOptimizerFile, io::kAverageFile}) {
      EXPECT_TRUE(fs::exists(whole / name)) << name;
      EXPECT_EQ(content_of(snapshot(host, steps[0]) / name), content_of(whole / name)) << name;
    }
  }
}

/// What a host that was away has of steps that the run has taken back since.
TEST_F(ResumedHostSnapshots, StepsThatWereTakenBackAreNotResumedFrom) {
  const auto put_state = [](const std::string& into, std::int64_t step, std::int64_t rollbacks) {
    io::CheckpointContent content;
    content.state.step = step;
    content.state.rollbacks = rollbacks;
    io::write_checkpoint(into, content);
  };
  if (leads()) {
    put_state(memory_of(hosts() - 1), 5, 0);
    put_state(disk(), 3, 1);
  }
  EXPECT_EQ(resumed_step(), 3);
  EXPECT_THAT(io::steps_in(memory_of(hosts() - 1)), ElementsAre());
  world().barrier();
  if (leads()) {
    put_state(memory_of(hosts() - 1), 5, 0);
    put_state(memory_of(0), 4, 1);
  }
  EXPECT_EQ(resumed_step(), 4);
  expect_all_hosts_have(4);
}

TEST_F(ResumedHostSnapshots, ADamagedCheckpointIsNoReasonToDisagree) {
  train_undisturbed(run_of_many_arrays());
  if (leads()) {
    put(disk(), 2);
    put(disk(), 5);
    fs::resize_file(fs::path(disk()) / io::checkpoint_name(5) / io::kModelFile, 1000);
    put(memory_of(0), 4);
  }
  EXPECT_EQ(resumed_step(), 4);
  expect_all_hosts_have(4);
}

TEST_F(ResumedHostSnapshots, WhereOneHostHasNoMemory) {
  train_undisturbed(run_of_many_arrays());
  if (leads()) {
    put(disk(), 2);
    put(memory_of(0), 4);
    fs::permissions(memory_of(hosts() - 1), fs::perms::all);
  }
  EXPECT_EQ(resumed_step(), 4);
  if (leads()) {
    EXPECT_THAT(io::steps_in(disk()), ElementsAre(2, 4));
  }
}

TEST_F(ResumedHostSnapshots, AHostWithoutRoomReadsFromTheDisk) {
  train_undisturbed(run_of_many_arrays());
  if (leads()) put(memory_of(0), 4);
  world().barrier();
  const FileLimit limit;
  if (host_of(world().rank()) > 0) limit.set(500);
  EXPECT_EQ(resumed_step(), 4);
  if (leads()) {
    EXPECT_THAT(io::steps_in(disk()), ElementsAre(4));
  }
  for (int host = 1; host < hosts(); ++host) {
    EXPECT_TRUE(fs::is_empty(memory_of(host))) << "host " << host;
  }
}

}  // namespace
}  // namespace lockstep
