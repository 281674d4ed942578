// SPDX-License-Identifier: Apache-2.0
// Checkpoints that all ranks write: the bytes of those of one rank, with and without a sharded
// optimizer; each rank's share of the memory; and what becomes of a save where a rank cannot write.
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <thread>

#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/safetensors.h"
#include "core/nn/trace.h"
#include "lockstep/replica.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/memory/memory_plan.h"
#include "parallel/replica/replica_state.h"
#include "parallel/training/checkpointing.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/parallel/file_limit.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::FileLimit;
using ::testing::HasSubstr;
using testing::SharedFolder;
using testing::SmallRun;

Communicator& world() { return testing::mpi_world(); }
bool leads() { return world().rank() == 0; }

SmallRun mlp() {
  SmallRun run{
      nn::make_model({.name = "mlp", .outputs = 10, .hidden = {300, 140}, .dropout = 0.1f}),
      data::glyphs(64, 16),
      {.global_batch = 30, .micro_batch = 4, .steps = 5}};
  run.options.optimizer = AdamW{.lr = 0.01f};
  run.options.ema = {.decay = 0.9f};
  run.options.bucket_mb = 0.3;
  return run;
}
SmallRun frozen_mlp() {
  SmallRun run = mlp();
  run.options.freeze = {"0"};
  return run;
}
SmallRun resnet() { return testing::small_resnet(); }  // statistics, and layouts of their own
SmallRun gpt() { return testing::small_gpt(); }        // tied

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Ranks hold most weights of others rounded. All steps are saved, so that a copy in the middle of
/// the run is compared, whose weights have to be gathered first.
SmallRun bf16_mlp() {
  SmallRun run = mlp();
  run.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {96}});
  run.options.precision = Precision::bf16;
  run.options.on_spike = OnSpike::rollback;
  return run;
}

/// The tensors' files of all checkpoints in `folder`, by path.
std::map<std::string, std::string> tensors_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".safetensors")
      files[entry.path().lexically_relative(folder)] = content_of(entry.path());
  return files;
}

void save_all(SmallRun run, Sharding sharding, const std::string& folder, Communicator& ranks) {
  run.options.log_every = 0;
  run.options.sharding = sharding;
  run.options.checkpoint = {.folder = folder, .every_steps = 2, .keep = 100};
  testing::train(run, ranks);
}

class CheckpointRanks : public ::testing::TestWithParam<SmallRun (*)()> {};

TEST_P(CheckpointRanks, FilesAreThoseOfOneRank) {
  const SharedFolder folder;
  const SmallRun run = GetParam()();
  SelfCommunicator self;
  if (leads()) save_all(run, Sharding::none, folder / "alone", self);
  save_all(run, Sharding::none, folder / "together", world());
  if (world().size() > 1) save_all(run, Sharding::optimizer, folder / "sharded", world());
  if (world().size() == 4) {
    testing::Traffic traffic;
    testing::ClaimedHosts hosts(world(), 2, traffic);
    save_all(run, Sharding::optimizer, folder / "on hosts", hosts);
  }
  world().barrier();
  if (!leads()) return;
  const std::map<std::string, std::string> alone = tensors_in(folder / "alone");
  std::vector<std::string> skipped;
  const std::int64_t last = run.options.steps;
  for (const char* other : {"together", "sharded", "on hosts"}) {
    if (!fs::exists(folder / other)) continue;
    const auto newest = io::newest_checkpoint(folder / other, skipped);
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->state.step, last);
    std::size_t compared = 0;
    for (const auto& [name, bytes] : tensors_in(folder / other)) {
      if (!alone.contains(name)) continue;  // which steps are saved depends on the disk
      EXPECT_TRUE(alone.at(name) == bytes) << other << ": " << name;
      ++compared;
    }
    EXPECT_GE(compared, run.options.ema.on() ? 3u : 2u);
    for (const auto& entry : fs::recursive_directory_iterator(folder / other)) {
      const std::string name = entry.path().filename();
      EXPECT_FALSE(name.starts_with(".") || name.starts_with("part_")) << entry.path();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of,
                         CheckpointRanks,
                         ::testing::Values(&mlp, &bf16_mlp, &frozen_mlp, &resnet, &gpt));

/// A checkpointing of a replica of `run`, and what is planned for it.
TEST(CheckpointRanksOf, MemoryIsWhatWasPlanned) {
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer}) {
    if (world().size() == 1 && sharding == Sharding::optimizer) continue;
    const SharedFolder folder;
    SmallRun run = frozen_mlp();
    run.options.sharding = sharding;
    PlanRequest request;
    request.model = run.model;
    request.loss = [](Builder& nn, Value logits, Value labels) {
      return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
    };
    request.data = run.data;
    request.options = run.options;
    request.ranks = world().size();
    testing::DeviceContext context(world());
    const Replica replica(
        context, run.model, request.loss, run.data.train->spec(), run.options, {});
    const SavedArrays saved = ReplicaState::of(replica).saved_arrays();
    const Checkpointing saving(world(), {.folder = folder / "checkpoints"}, saved, {}, {});
    EXPECT_EQ(saving.why_one_writer(), "");
    std::uint64_t sum = 0, largest = 0;
    for (int rank = 0; rank < world().size(); ++rank) {
      const MemoryPlan plan = plan_memory(*testing::make_test_backend(), request, rank);
      const std::uint64_t planned = *plan.table[MemoryCategory::snapshot];
      if (rank == world().rank()) {
        EXPECT_EQ(saving.memory_bytes(), planned);
      }
      if (rank == 0) largest = planned;
      EXPECT_LE(planned, largest);
      sum += planned;
    }
    request.ranks = 1;
    request.options.sharding = Sharding::none;
    const MemoryPlan alone = plan_memory(*testing::make_test_backend(), request);
    const std::uint64_t all = *alone.table[MemoryCategory::snapshot];
    EXPECT_LE(sum, all + all / 8);
    EXPECT_GE(sum + all / 8, all);
    if (world().size() > 1) {
      EXPECT_LT(largest, all);
    }
  }
}

/// Rank 0's records of saves.
class Records final : public TrainObserver {
 public:
  void on_checkpoint(const CheckpointRecord& record) override { records.push_back(record); }
  void on_single_writer(const std::string& why, std::uint64_t) override { why_one = why; }
  std::vector<CheckpointRecord> records;
  std::string why_one;
};

TrainSummary train(const SmallRun& run, TrainObserver& observer) {
  testing::DeviceContext context(world());
  const auto loss = [](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
  };
  Trainer trainer(context, run.model, loss, run.options);
  trainer.add_observer(observer);
  return trainer.fit(run.data);
}

/// Saves of arrays without a training, step by step, on all ranks.
class RanksSave : public ::testing::Test {
 protected:
  RanksSave() {
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
                    CheckpointOptions{.folder = folder_ / "checkpoints", .every_steps = 10},
                    SavedArrays{backend_, graph_, space_, {{"", values_.data()}}},
                    io::CheckpointState{},
                    std::vector<TrainObserver*>{&records_});
    agreement_.emplace(
        world(), std::function<bool()>(), std::vector<MessagePart*>{&saving_->message()});
  }
  bool step(double val_loss = io::CheckpointState::kUnknown) {
    ++step_;
    agreement_->poll(true);
    return saving_->after_step(step_, val_loss, state());
  }
  Checkpointing::StateFunction state() const {
    return [this] {
      io::CheckpointState state;
      state.step = step_;
      return state;
    };
  }
  /// Other steps, until rank 0 has reported so many saves; on every rank alike.
  void step_until(std::size_t records) {
    for (int i = 0; i < 20'000; ++i) {
      bool reported = records_.records.size() >= records;
      world().broadcast(&reported, sizeof reported, 0);
      if (reported) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      agreement_->poll(true);
      saving_->after_step(step_ + 1, io::CheckpointState::kUnknown, state());  // none is due
    }
    FAIL() << "no result of a save";
  }

  const SharedFolder folder_;
  testing::NullBackend backend_;
  Graph graph_;
  FlatSpace space_;
  std::vector<float> values_;
  Records records_;
  std::int64_t step_ = 0;
  std::optional<Checkpointing> saving_;
  std::optional<StopAgreement> agreement_;
};

TEST_F(RanksSave, AFullDiskOfOneRankFailsOneSave) {
  const int last = world().size() - 1;
  const FileLimit limit;
  for (int i = 1; i < 10; ++i) EXPECT_FALSE(step());
  if (world().rank() == last) limit.set(500);
  EXPECT_TRUE(step());
  step_until(1);
  limit.lift();
  for (int i = 1; i < 10; ++i) step();
  EXPECT_TRUE(step());
  step_until(2);
  if (!leads()) return;
  EXPECT_THAT(records_.records[0].error, HasSubstr("File too large"));
  EXPECT_THAT(records_.records[0].error, HasSubstr("model.safetensors"));
  if (last > 0) {
    EXPECT_THAT(records_.records[0].error, HasSubstr(fmt::format("rank {}: ", last)));
  }
  EXPECT_EQ(records_.records[1].error, "");
  EXPECT_EQ(records_.records[1].step, 20);
  const fs::path folder = folder_ / "checkpoints";
  EXPECT_THAT(io::steps_in(folder), ::testing::ElementsAre(20));
  EXPECT_EQ(io::verify_checkpoint(folder / "step_00000020").step, 20);
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_EQ(entry.path().filename().string(), "step_00000020") << "left over";
}

/// The same at the end, where no message travels any more.
TEST_F(RanksSave, AFullDiskOfOneRankAtTheEnd) {
  const int last = world().size() - 1;
  const FileLimit limit;
  step();
  agreement_.reset();
  if (world().rank() == last) limit.set(500);
  EXPECT_FALSE(saving_->save_now(step_, state()));
  limit.lift();
  EXPECT_TRUE(saving_->save_now(step_, state()));
  EXPECT_TRUE(saving_->save_now(step_, state())) << "which it has";
  EXPECT_EQ(records_.records.size(), leads() ? 2u : 0u);
}

/// What a rank could not write is not forgotten where later saves are dropped before rank 0 knows.
TEST_F(RanksSave, AFailureOutlivesSavesThatAreReplaced) {
  const int last = world().size() - 1;
  const FileLimit limit;
  if (world().rank() == last) limit.set(500);
  step(0.9);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it fails
  agreement_.reset();                                           // without a message
  for (const double loss : {0.8, 0.7, 0.6}) {
    ++step_;
    saving_->after_step(step_, loss, state());
  }
  limit.lift();
  EXPECT_TRUE(saving_->save_now(++step_, state()));
  if (!leads()) return;
  ASSERT_GE(records_.records.size(), 2u);
  EXPECT_THAT(records_.records[0].error, HasSubstr("File too large"));
  EXPECT_EQ(records_.records.back().error, "");
}

/// Weights of the lowest validation loss, while the one before is still written.
TEST_F(RanksSave, TheBestTakeTheirTurn) {
  const double losses[] = {0.9, 0.8, 0.7, 0.75, 0.6};
  for (const double loss : losses) {
    values_.assign(values_.size(), float(loss));
    step(loss);
  }
  agreement_.reset();
  values_.assign(values_.size(), 0.5f);
  ++step_;
  EXPECT_TRUE(saving_->save_now(step_, state()));
  if (!leads()) return;
  const fs::path folder = folder_ / "checkpoints";
  std::vector<std::string> skipped;
  const auto newest = io::newest_checkpoint(folder, skipped);
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->state.step, 6);
  EXPECT_EQ(newest->state.best_step, 5);
  EXPECT_EQ(io::verify_checkpoint(folder / "step_00000005").best_val_loss, 0.6);
  for (const std::int64_t saved : io::steps_in(folder)) {
    const io::SafetensorsReader model(folder / io::checkpoint_name(saved) / "model.safetensors");
    const float expected = saved == 6 ? 0.5f : float(losses[std::size_t(saved) - 1]);
    for (const io::TensorEntry& entry : model.entries())
      EXPECT_THAT(model.read<float>(entry.name), ::testing::Each(expected)) << saved;
  }
}

/// Where a rank does not see the folder, rank 0 writes alone, also what others own.
TEST(CheckpointRanksOf, OneWriterWhereAFolderIsNotShared) {
  if (world().size() == 1) GTEST_SKIP() << "needs another rank";
  const SharedFolder folder;
  SmallRun run = mlp();
  run.options.log_every = 0;
  SelfCommunicator self;
  if (leads()) save_all(run, Sharding::none, folder / "alone", self);
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer}) {
    run.options.sharding = sharding;
    run.options.checkpoint = {.folder = folder / "one", .every_steps = 5};
    if (!leads()) run.options.checkpoint.folder = {};
    Records records;
    train(run, records);
    world().barrier();
    if (!leads()) continue;
    const int last = world().size() - 1;
    EXPECT_THAT(records.why_one,
                HasSubstr(last == 1   ? "rank 1 on "
                          : last == 2 ? "ranks 1, 2 on "
                                      : fmt::format("ranks 1-{} on ", last)));
    EXPECT_EQ(tensors_in(folder / "one/step_00000005"), tensors_in(folder / "alone/step_00000005"));
    fs::remove_all(folder / "one");
  }
}

}  // namespace
}  // namespace lockstep
