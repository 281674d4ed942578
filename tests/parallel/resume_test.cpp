// SPDX-License-Identifier: Apache-2.0
// A run that is stopped and continues, on whatever number of ranks, ends with the bits of one that
// was never disturbed.
#include "parallel/training/resume.h"

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include <tuple>
#include <utility>

#include "core/io/checkpoint/checkpoint.h"
#include "lockstep/error.h"
#include "parallel/batch/run_settings.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SharedFolder;
using testing::SmallRun;

/// What every rank of the world learns of a run on its first `ranks`.
struct Outcome {
  std::array<char, 65> sha{};
  double train_loss = 0, val_loss = 0, val_accuracy = 0;
  std::int64_t steps = 0, resumed_at = 0;
  bool stopped = false;
};

Outcome train_on(int ranks, const SmallRun& run) {
  Communicator& world = testing::mpi_world();
  const bool member = world.rank() < ranks;
  const auto group = world.split(member ? 0 : 1, world.rank());
  Outcome outcome;
  if (member) {
    const TrainSummary s = testing::train(run, *group);
    s.weights_sha256.copy(outcome.sha.data(), 64);
    outcome.train_loss = s.train_loss;
    outcome.val_loss = s.val_loss;
    outcome.val_accuracy = s.val_accuracy;
    outcome.steps = s.steps;
    outcome.resumed_at = s.resumed_at;
    outcome.stopped = s.stopped;
  }
  world.broadcast(&outcome, sizeof outcome, 0);
  return outcome;
}

void expect_same_end(const Outcome& a, const Outcome& b) {
  EXPECT_STREQ(a.sha.data(), b.sha.data());
  EXPECT_EQ(a.train_loss, b.train_loss);
  EXPECT_EQ(a.val_loss, b.val_loss);
  EXPECT_EQ(a.val_accuracy, b.val_accuracy);
  EXPECT_EQ(a.steps, b.steps);
}

SmallRun resnet() {
  SmallRun run = testing::small_resnet();  // dropout, momentum, short micro-batches
  run.options.steps = 7;                   // 3 steps an epoch, the last of 8 samples
  run.options.lr_schedule = {.kind = LrSchedule::Kind::cosine, .warmup_steps = 2};
  run.options.augmentation = data::parse_augmentation("shift,flip");
  run.options.clip_norm = 0.5f;
  run.options.log_every = 0;
  return run;
}

SmallRun gpt() {
  SmallRun run = testing::small_gpt(7);
  run.options.steps = 6;
  run.options.eval_every = 2;
  run.options.log_every = 0;
  return run;
}

/// Stops a run on one rank at every point where one may stop, steps and rounds of evaluations, and
/// lets it continue elsewhere.
void expect_resumes_from_every_moment(const SmallRun& run) {
  const Outcome whole = train_on(1, run);
  const int world = testing::mpi_world().size();
  int moment = 1;
  for (bool stopped = true; stopped; ++moment) {
    const SharedFolder folder;
    SmallRun part = run;
    part.options.checkpoint = {.folder = folder / "first"};
    int asked = 0;
    part.options.stop = [&] { return ++asked == moment; };
    const Outcome first = train_on(1, part);
    stopped = first.stopped;
    if (!stopped) break;
    part.options.stop = {};
    part.options.checkpoint = {.folder = folder / "second",
                               .resume = folder / "first/" + io::checkpoint_name(first.steps)};
    const Outcome resumed = train_on(moment % world + 1, part);
    EXPECT_EQ(resumed.resumed_at, first.steps);
    expect_same_end(resumed, whole);
  }
  EXPECT_GT(moment, run.options.steps);
}

TEST(Resume, FromEveryMomentOfAConvnet) { expect_resumes_from_every_moment(resnet()); }
TEST(Resume, FromEveryMomentOfAGpt) { expect_resumes_from_every_moment(gpt()); }
TEST(Resume, FromEveryMomentOfEmbeddedColumns) {
  expect_resumes_from_every_moment(testing::small_embedding());
}
TEST(Resume, Bf16AndNesterov) {
  SmallRun run = resnet();
  run.options.precision = Precision::bf16;
  run.options.optimizer =
      Sgd{.lr = 0.05f, .momentum = 0.9f, .nesterov = true, .weight_decay = 1e-3f};
  expect_resumes_from_every_moment(run);
}

TEST(Resume, MixedImages) {
  SmallRun run = resnet();
  run.options.augmentation = data::parse_augmentation("flip,mixup,cutmix");
  expect_resumes_from_every_moment(run);
}

TEST(Resume, OptimizersOfWholeTensors) {
  for (const Optimizer& optimizer :
       {Optimizer(Muon{}), Optimizer(NorMuon{}), Optimizer(Lamb{}), Optimizer(Lars{})}) {
    SmallRun run = gpt();
    run.options.steps = 4;
    run.options.optimizer = optimizer;
    expect_resumes_from_every_moment(run);
  }
}

TEST(Resume, WhicheverRankIsAskedToStop) {
  const int world = testing::mpi_world().size();
  SmallRun run = gpt();
  run.options.steps = 300;
  run.options.eval_every = 100;
  const Outcome whole = train_on(1, run);
  for (int asked = 0; asked < world; ++asked) {
    const SharedFolder folder;
    run.options.checkpoint = {.folder = folder / "checkpoints", .every_seconds = 0.05};
    std::atomic<int> calls = 0;
    run.options.stop = [&] { return testing::mpi_world().rank() == asked && ++calls > 1; };
    const Outcome stopped = train_on(world, run);
    EXPECT_TRUE(stopped.stopped);
    EXPECT_LT(stopped.steps, 300);
    run.options.stop = {};
    run.options.checkpoint.resume = "auto";
    const Outcome resumed = train_on((asked + 1) % world + 1, run);
    EXPECT_EQ(resumed.resumed_at, stopped.steps);
    expect_same_end(resumed, whole);
  }
}

/// Says when one of its samples is loaded, which takes a while.
class Telltale final : public data::Dataset {
 public:
  Telltale(std::shared_ptr<const data::Dataset> inside, std::atomic<bool>& loaded)
      : inside_(std::move(inside)), loaded_(loaded) {}
  const data::SampleSpec& spec() const override { return inside_->spec(); }
  std::int64_t size() const override { return inside_->size(); }
  void load(std::uint64_t epoch, std::int64_t i, std::byte* x, std::byte* y) const override {
    loaded_ = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    inside_->load(epoch, i, x, y);
  }
  std::string describe() const override { return inside_->describe(); }
  std::uint64_t fingerprint() const override { return inside_->fingerprint(); }

 private:
  std::shared_ptr<const data::Dataset> inside_;
  std::atomic<bool>& loaded_;
};

TEST(Resume, StoppedInMidEvaluation) {
  const SharedFolder folder;
  SmallRun run = resnet();
  run.data = data::glyphs(64, 400);
  run.options.workers = 0;
  const Outcome whole = train_on(1, run);
  std::atomic<bool> evaluating = false;
  SmallRun stopping = run;
  stopping.data.validation = std::make_shared<Telltale>(run.data.validation, evaluating);
  stopping.options.checkpoint = {.folder = folder / "checkpoints"};
  stopping.options.stop = [&] { return evaluating.load(); };
  const Outcome stopped = train_on(2, stopping);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 3) << "the first evaluation follows the first epoch";
  const io::CheckpointState state =
      io::verify_checkpoint(folder / "checkpoints/" + io::checkpoint_name(3));
  EXPECT_FALSE(state.evaluated);
  run.options.checkpoint = {.folder = folder / "checkpoints", .resume = "auto"};
  expect_same_end(train_on(testing::mpi_world().size(), run), whole);
}

TEST(Resume, FromTheNewestOfDiskAndMemory) {
  const SharedFolder folder;
  SmallRun run = resnet();
  run.options.checkpoint = {.folder = folder / "all", .every_steps = 1, .keep = 10};
  const Outcome whole = train_on(2, run);
  // As a killed run leaves them: checkpoints in one folder, the newest snapshot in the other.
  const auto leave = [&](std::int64_t on_disk, std::int64_t in_memory, bool damaged) {
    if (testing::mpi_world().rank() == 0)
      for (const auto& [name, step] :
           {std::pair{"checkpoints", on_disk}, std::pair{"memory", in_memory}}) {
        fs::remove_all(folder / name);
        const fs::path copy = fs::path(folder / name) / io::checkpoint_name(step);
        fs::create_directories(copy);
        fs::permissions(copy.parent_path(), fs::perms::owner_all);
        fs::copy(fs::path(folder / "all") / io::checkpoint_name(step), copy);
        if (damaged && name == std::string("memory"))
          fs::resize_file(copy / "model.safetensors", 1000);
      }
    testing::mpi_world().barrier();
    SmallRun resumed = run;
    resumed.options.checkpoint = {
        .folder = folder / "checkpoints", .snapshot_folder = folder / "memory", .resume = "auto"};
    return train_on(3, resumed);
  };
  for (const auto& [on_disk, in_memory, damaged, expected] :
       {std::tuple{3, 5, false, 5}, {3, 5, true, 3}, {5, 3, false, 5}}) {
    const Outcome resumed = leave(on_disk, in_memory, damaged);
    EXPECT_EQ(resumed.resumed_at, expected) << on_disk << " and " << in_memory;
    expect_same_end(resumed, whole);
  }
}

TEST(Resume, ADamagedCheckpointIsPassedOverAndReplaced) {
  const SharedFolder folder;
  SmallRun run = resnet();
  run.options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 3, .keep = 5};
  const Outcome whole = train_on(2, run);
  const std::string newest = folder / "checkpoints/" + io::checkpoint_name(7);
  if (testing::mpi_world().rank() == 0) fs::resize_file(newest + "/model.safetensors", 1000);
  testing::mpi_world().barrier();
  run.options.checkpoint.resume = "auto";
  const Outcome resumed = train_on(1, run);
  EXPECT_EQ(resumed.resumed_at, 6);
  expect_same_end(resumed, whole);
  EXPECT_EQ(io::verify_checkpoint(newest).step, 7);
  EXPECT_TRUE(fs::exists(newest + ".damaged"));
}

TEST(Resume, OtherSettingsAreRefusedUnlessAllowed) {
  const SharedFolder folder;
  SmallRun run = resnet();
  run.options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 5};
  train_on(1, run);
  run.options.checkpoint.resume = "auto";
  run.options.seed = 9;
  run.options.steps = 8;
  const int ranks = testing::mpi_world().size();
  try {
    train_on(ranks, run);
    ADD_FAILURE() << "another seed and length were taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("seed 1 then, 9 now"));
    EXPECT_THAT(error.what(), Not(HasSubstr("steps")));  // another length is no other setting
    EXPECT_THAT(error.hint(), HasSubstr("resume_override"));
  }
  testing::mpi_world().barrier();
  run.options.checkpoint.resume_override = true;
  EXPECT_EQ(train_on(ranks, run).steps, 8);
  SmallRun other = gpt();
  other.options.steps = 9;
  other.options.checkpoint = run.options.checkpoint;
  EXPECT_THROW(train_on(ranks, other), OtherSettings) << "state of another kind of optimizer";
  testing::mpi_world().barrier();
  other.options.optimizer = run.options.optimizer;
  EXPECT_THROW(train_on(ranks, other), DataError) << "parameters of another model";
}

// Keys of settings that are off are not in checkpoints, so that those of earlier versions resume.
TEST(Resume, ClippingAndScaledRatesAreCompared) {
  const SharedFolder folder;
  SmallRun run = resnet();
  run.options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 5};
  train_on(1, run);
  run.options.checkpoint.resume = "auto";
  const auto refusal = [&](const auto& change) -> std::string {
    SmallRun other = run;
    other.options.steps = 8;
    other.options.clip_norm = 0;
    change(other.options);
    std::string text;
    try {
      train_on(testing::mpi_world().size(), other);
    } catch (const ConfigError& error) {
      text = error.what();
    }
    testing::mpi_world().barrier();
    return text;
  };
  EXPECT_THAT(refusal([](TrainOptions& o) { o.clip_value = 0.5f; }), HasSubstr("clip-value"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.clip_agc = 0.5f; }), HasSubstr("clip-agc"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.lr_scaling.reference_batch = 64; }),
              HasSubstr("lr-scaling"));
}

// A version that groups a model's parameters in another way would train on at other rates.
TEST(Resume, OtherLayersOfLayerDecayAreRefusedUnlessAllowed) {
  SmallRun run = resnet();
  run.options.layer_decay = 0.5f;
  const Fingerprint now = model_settings(run.model,
                                         softmax_cross_entropy,
                                         run.data.train->spec(),
                                         run.options,
                                         plan_batch(run.options, 1));
  ASSERT_EQ(now.size(), 2u);
  EXPECT_EQ(now[1].first, "layer-decay");
  ResumePoint point;
  point.state.settings = {now.begin(), now.end()};
  check_settings(point, now, run.options, *run.data.train);
  EXPECT_TRUE(point.record.overridden.empty());
  // What a checkpoint had before the layers were compared.
  point.state.settings[1].second = "0.5";
  try {
    check_settings(point, now, run.options, *run.data.train);
    ADD_FAILURE() << "other layers were taken";
  } catch (const OtherSettings& error) {
    EXPECT_THAT(error.what(), HasSubstr("layer-decay 0.5 then, 0.5, layers "));
  }
  run.options.checkpoint.resume_override = true;
  check_settings(point, now, run.options, *run.data.train);
  EXPECT_EQ(point.record.overridden.size(), 1u);
  run.options.layer_decay = 1;
  EXPECT_EQ(model_settings(run.model,
                           softmax_cross_entropy,
                           run.data.train->spec(),
                           run.options,
                           plan_batch(run.options, 1))
                .size(),
            1u);
}

// As a checkpoint of a version that embedded no column.
TEST(Resume, AColumnThatWasOneHotStaysSoOrIsRefusedByName) {
  const SharedFolder folder;
  if (testing::mpi_world().rank() == 0) {
    std::ofstream file(folder / "towns.csv");
    file << "size,town,kind\n";
    for (int row = 0; row < 120; ++row)
      file << row % 7 << ",t" << row * 7 % 40 << ",k" << row % 3 << "\n";
  }
  testing::mpi_world().barrier();
  const data::TableOptions one_hot{.one_hot_columns = {"town"}};
  SmallRun run = testing::small_embedding();
  run.data = data::csv(folder / "towns.csv", one_hot, 0.25);
  const Outcome whole = train_on(1, run);
  run.options.steps = 5;
  run.options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 5};
  train_on(1, run);
  run.options.steps = 9;
  run.options.checkpoint.resume = "auto";
  const SmallRun as_before = run;
  run.data = data::csv(folder / "towns.csv", 0.25);
  try {
    train_on(testing::mpi_world().size(), run);
    ADD_FAILURE() << "embedded columns were taken for one-hot ones";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("column 'town' was one-hot in the run and is embedded now"));
    EXPECT_THAT(error.what(), HasSubstr("32 categories or more are embedded, it has 40"));
    EXPECT_THAT(error.hint(), HasSubstr("one_hot_columns"));
  }
  testing::mpi_world().barrier();
  const Outcome resumed = train_on(2, as_before);
  EXPECT_EQ(resumed.resumed_at, 5);
  expect_same_end(resumed, whole);
}

TEST(Resume, NewerCheckpointsAreNotWrittenOver) {
  const SharedFolder folder;
  SmallRun run = resnet();
  run.options.checkpoint = {.folder = folder / "checkpoints", .every_steps = 3, .keep = 5};
  train_on(1, run);
  run.options.checkpoint.resume = folder / "checkpoints/" + io::checkpoint_name(3);
  try {
    train_on(testing::mpi_world().size(), run);
    ADD_FAILURE() << "a branch was taken into the same folder";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("step_00000006, step_00000007"));
    EXPECT_EQ(error.exit_code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace lockstep
