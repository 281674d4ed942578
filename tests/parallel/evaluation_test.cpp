// SPDX-License-Identifier: Apache-2.0
// Evaluations of data some of which cannot be read: what is left of them, to the bit.
#include "parallel/training/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "core/base/check.h"
#include "lockstep/data/sources.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/replica/memory_table.h"
#include "parallel/replica/program_set.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/metered_context.h"
#include "tests/parallel/shared_folder.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMicroBatch = 8;

/// Glyphs, some of which cannot be read.
class DamagedGlyphs final : public data::Dataset {
 public:
  explicit DamagedGlyphs(std::int64_t size) : glyphs_(data::glyphs(64, size).validation) {}
  const data::SampleSpec& spec() const override { return glyphs_->spec(); }
  std::int64_t size() const override { return glyphs_->size(); }
  void load(std::uint64_t epoch, std::int64_t i, std::byte* x, std::byte* y) const override {
    LOCKSTEP_CHECK(!bad.contains(i), DataError, "glyph {} is damaged", i);
    glyphs_->load(epoch, i, x, y);
  }
  std::string describe() const override { return "damaged glyphs"; }
  std::uint64_t fingerprint() const override { return 1; }
  /// Those of the samples that can be read.
  std::shared_ptr<const data::Dataset> good() const {
    return std::make_shared<data::ReducedDataset>(
        glyphs_, std::vector<std::int64_t>(bad.begin(), bad.end()));
  }

  std::set<std::int64_t> bad;

 private:
  std::shared_ptr<const data::Dataset> glyphs_;
};

std::set<std::int64_t> range(std::int64_t first, std::int64_t end) {
  std::set<std::int64_t> numbers;
  for (std::int64_t i = first; i < end; ++i) numbers.insert(i);
  return numbers;
}

ModelFunction net() { return nn::make_model({.name = "mlp", .outputs = 10, .hidden = {24}}); }

TrainOptions skipping() {
  TrainOptions options{.global_batch = 32, .micro_batch = kMicroBatch, .steps = 5};
  options.optimizer = AdamW{.lr = 3e-3f};
  options.log_every = 0;
  options.eval_every = 1;
  options.skip_bad_samples = true;
  return options;
}

/// A replica that evaluates one dataset.
struct Evaluated {
  explicit Evaluated(std::shared_ptr<const data::Dataset> dataset,
                     const TrainOptions& train_options = skipping())
      : options(train_options),
        context(testing::mpi_world()),
        replica(context,
                net(),
                softmax_cross_entropy,
                dataset->spec(),
                options,
                tail_sizes(plan_batch(options, context.size()), 0, dataset->size())),
        evaluation(context, replica, options, std::move(dataset)) {}

  EvaluationRecord run() { return *evaluation.run({}); }

  TrainOptions options;
  testing::DeviceContext context;
  Replica replica;
  Evaluation evaluation;
};

TEST(Evaluation, ManyUnreadableSamplesInARowAreSkipped) {
  const auto data = std::make_shared<DamagedGlyphs>(200);
  // More than a loader of training skips; all that a rank of several has; and the last ones.
  for (const auto& bad : {range(3, 150), range(0, 100), range(100, 200), range(1, 200)}) {
    data->bad = bad;
    const EvaluationRecord expected = Evaluated(data->good()).run();
    const EvaluationRecord record = Evaluated(data).run();
    EXPECT_EQ(record.val_loss, expected.val_loss);
    EXPECT_EQ(record.val_accuracy, expected.val_accuracy);
    EXPECT_EQ(record.samples, 200 - std::ssize(bad));
    EXPECT_EQ(record.skipped_samples, std::ssize(bad));
    EXPECT_THAT(record.first_skipped, HasSubstr(fmt::format("glyph {} ", *bad.begin())));
  }
}

TEST(Evaluation, WhereNoSampleCanBeReadEveryRankSaysSo) {
  const auto data = std::make_shared<DamagedGlyphs>(40);
  data->bad = range(0, 40);
  Evaluated evaluated(data);
  try {
    evaluated.run();
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none of the 40 samples"));
    EXPECT_THAT(error.what(), HasSubstr("glyph 0 is damaged"));
  }
}

TEST(Evaluation, AnErrorOfAMomentCostsASampleOneEvaluation) {
  const auto data = std::make_shared<DamagedGlyphs>(45);
  const double whole = Evaluated(data).run().val_loss;
  Evaluated evaluated(data);
  data->bad = {2, 17, 40};
  EXPECT_EQ(evaluated.run().samples, 42);
  data->bad = {17};
  const double without_one = Evaluated(data->good()).run().val_loss;
  const EvaluationRecord second = evaluated.run();
  EXPECT_EQ(second.samples, 44);
  EXPECT_EQ(second.val_loss, without_one);
  EXPECT_THAT(second.first_skipped, HasSubstr("glyph 17 "));
  data->bad = {};
  const EvaluationRecord third = evaluated.run();
  EXPECT_EQ(third.samples, 45);
  EXPECT_EQ(third.skipped_samples, 0);
  EXPECT_EQ(third.val_loss, whole);
  // Each counts once, however often it was skipped.
  EXPECT_EQ(evaluated.evaluation.skipped_samples(), 3);
  EXPECT_THAT(evaluated.evaluation.first_skipped(), HasSubstr("glyph 2 "));
}

/// The last validation of a run whose validations have needed a late program since the first step,
/// and that of a new trainer with the run's weights on the data that can be read.
class LateProgram : public ::testing::TestWithParam<Precision> {};

TEST_P(LateProgram, SeesTheWeightsOfTheLastStep) {
  const testing::SharedFolder folder;
  const auto data = std::make_shared<DamagedGlyphs>(64);
  data->bad = {0, 9, 33};  // of 64, in micro-batches of 8: the last of the 61 is of 5
  TrainOptions options = skipping();
  options.precision = GetParam();
  const data::DataSplit split{data::glyphs(64, 1).train, data};
  testing::DeviceContext context(testing::mpi_world());
  Trainer trainer(context, net(), softmax_cross_entropy, options);
  const TrainSummary summary = trainer.fit(split);
  EXPECT_EQ(summary.skipped_samples, 3) << "of five validations";
  if (context.rank() == 0) trainer.save_weights(folder / "weights.safetensors");
  testing::mpi_world().barrier();
  options.init = folder / "weights.safetensors";
  testing::DeviceContext other(testing::mpi_world());
  const EvaluationRecord fresh =
      Trainer(other, net(), softmax_cross_entropy, options).evaluate({nullptr, data->good()});
  EXPECT_EQ(summary.val_loss, fresh.val_loss);
  EXPECT_EQ(summary.val_accuracy, fresh.val_accuracy);
}

INSTANTIATE_TEST_SUITE_P(Precisions,
                         LateProgram,
                         ::testing::Values(Precision::fp32, Precision::bf16));

/// Programs of a small run, on a device whose memory is metered.
struct MeteredPrograms {
  explicit MeteredPrograms(const TrainOptions& train_options)
      : options(train_options),
        programs(context, net(), softmax_cross_entropy, spec, options, batch, {}) {}

  void set_late(std::int64_t samples) {
    programs.set_late_evaluation(
        context, net(), softmax_cross_entropy, spec, options, batch, samples);
  }
  std::uint64_t arenas() const { return context.metered.alive("activations and workspace"); }

  TrainOptions options;
  testing::MeteredContext context;
  data::SampleSpec spec = data::glyphs(64, 1).train->spec();
  BatchPlan batch = plan_batch(options, testing::mpi_world().size());
  ProgramSet programs;
};

TEST(LateEvaluation, ThereIsOneAtMost) {
  MeteredPrograms run(skipping());
  const std::uint64_t before = run.context.metered.alive();
  run.set_late(3);
  EXPECT_TRUE(run.programs.evaluates(3));
  const std::uint64_t with_three = run.context.metered.alive();
  run.set_late(5);
  EXPECT_TRUE(run.programs.evaluates(5));
  EXPECT_FALSE(run.programs.evaluates(3));
  EXPECT_TRUE(run.programs.evaluates(kMicroBatch));
  run.set_late(3);
  EXPECT_EQ(run.context.metered.alive(), with_three);
  // One that is larger than all others has an arena of its own, which goes with it.
  run.set_late(20 * kMicroBatch);
  EXPECT_GT(run.context.metered.alive(), before);
  EXPECT_EQ(run.arenas(), run.programs.arena_bytes());
  run.set_late(3);
  EXPECT_EQ(run.context.metered.alive(), with_three);
  EXPECT_EQ(run.arenas(), run.programs.arena_bytes());
}

TEST(LateEvaluation, KeepsTheMemoryLimit) {
  TrainOptions options = skipping();
  std::uint64_t needed = 0;
  {
    MeteredPrograms unlimited(options);
    const std::uint64_t planned =
        unlimited.programs.compiled().device_bytes(options, unlimited.batch);
    const std::uint64_t before = unlimited.context.metered.alive();
    unlimited.set_late(20 * kMicroBatch);
    needed = planned + unlimited.context.metered.alive() - before;
  }
  options.memory_limit = needed;
  MeteredPrograms enough(options);
  EXPECT_NO_THROW(enough.set_late(20 * kMicroBatch));
  options.memory_limit = needed - 1;
  MeteredPrograms limited(options);
  const std::uint64_t before = limited.context.metered.alive();
  EXPECT_THROW(limited.set_late(20 * kMicroBatch), OutOfMemory);
  EXPECT_EQ(limited.context.metered.alive(), before);
  EXPECT_FALSE(limited.programs.evaluates(20 * kMicroBatch));
  // It may be tried again with fewer samples.
  EXPECT_NO_THROW(limited.set_late(3));
}

TEST(LateEvaluation, ItsMemoryIsInTheTable) {
  TrainOptions options = skipping();
  testing::MeteredContext context;
  const data::SampleSpec spec = data::glyphs(64, 1).train->spec();
  Replica replica(context, net(), softmax_cross_entropy, spec, options, {});
  replica.compile_for_evaluation(3);
  const MemoryTable table = ReplicaState::of(replica).memory();
  EXPECT_EQ(table.arena_bytes, context.metered.alive("activations and workspace"));
  EXPECT_EQ(table.on_device(), context.metered.alive());
}

}  // namespace
}  // namespace lockstep
