// SPDX-License-Identifier: Apache-2.0
// Replicas that must be equal and are not: found within the promised steps, named alike on every
// rank, and never where all is well.
#include "parallel/replica/replica_check.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

#include "core/io/checkpoint/checkpoint_names.h"
#include "parallel/replica/replica_state.h"
#include "parallel/training/training_run.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

int rank() { return testing::mpi_world().rank(); }
int ranks() { return testing::mpi_world().size(); }

/// Bits that are flipped on one rank between two steps.
struct Flip {
  int rank = 0;
  int after_step = 0;
  std::size_t array = 0;  ///< 0: parameters
  std::int64_t index = 0;
  int bit = 0;
};

struct Outcome {
  std::string error = "no error", hint, tensor;
  int exit_code = 0;
};

/// Trains with bits flipped: on the training thread, where the wish to stop is asked for. That
/// happens after every step, as long as these are longer than StopAgreement::kSeconds.
Outcome train_with(const testing::SmallRun& run, const std::vector<Flip>& flips) {
  testing::DeviceContext context(testing::mpi_world());
  TrainOptions options = run.options;
  const std::int64_t batch = options.global_batch, micro = options.micro_batch;
  const std::int64_t size = run.data.train->size();
  std::vector<std::int64_t> tails{batch % micro, size % batch % micro};
  if (run.data.validation) tails.push_back(run.data.validation->size() % micro);
  std::erase(tails, 0);
  Replica replica(
      context, run.model, softmax_cross_entropy, run.data.train->spec(), options, tails);
  Outcome outcome;
  int asked = 0;
  options.stop = [&] {
    ++asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    for (const Flip& flip : flips)
      if (flip.after_step == asked && flip.rank == rank())
        outcome.tensor = ReplicaState::of(replica).flip_bit(flip.array, flip.index, flip.bit);
    return false;
  };
  const std::vector<TrainObserver*> observers;
  const Fingerprint settings;
  try {
    TrainingRun({.context = context,
                 .replica = replica,
                 .options = options,
                 .data = run.data,
                 .schedule = options.lr_schedule,
                 .steps = options.steps,
                 .settings = settings,
                 .observers = observers})
        .run();
  } catch (const DivergedError& error) {
    outcome.error = error.what();
    outcome.hint = error.hint();
    outcome.exit_code = int(error.exit_code());
  }
  return outcome;
}

/// What rank `root` has in `text`, on every rank.
std::string broadcast(std::string text, int root) {
  std::size_t size = text.size();
  testing::mpi_world().broadcast(&size, sizeof size, root);
  text.resize(size);
  testing::mpi_world().broadcast(text.data(), size, root);
  return text;
}

testing::SmallRun four_steps_of_adamw() {
  testing::SmallRun run = testing::small_gpt();
  run.options.steps = 6;
  run.options.log_every = run.options.eval_every = 0;
  run.options.check_replicas_every = 2;
  run.options.bucket_mb = 0.05;
  return run;
}

void expect_found(const Flip& flip, const char* array) {
  SCOPED_TRACE(fmt::format("{} element {} bit {}", array, flip.index, flip.bit));
  const Outcome outcome = train_with(four_steps_of_adamw(), {flip});
  const std::string tensor = broadcast(outcome.tensor, flip.rank);
  EXPECT_EQ(outcome.exit_code, 6);
  EXPECT_EQ(broadcast(outcome.error, 0), outcome.error);
  EXPECT_EQ(broadcast(outcome.hint, 0), outcome.hint);
  // After step 3: the next comparison is that of step 4, and its result comes with step 5.
  EXPECT_THAT(outcome.error, HasSubstr("replicas differ after step 4"));
  EXPECT_THAT(outcome.hint, HasSubstr("equal after step 2"));
  EXPECT_THAT(outcome.error, AllOf(HasSubstr(array), HasSubstr("bucket ")));
  EXPECT_THAT(outcome.error, HasSubstr(tensor.substr(0, tensor.find(".exp_avg"))));
  if (ranks() == 2) {
    EXPECT_THAT(
        outcome.error,
        AllOf(
            HasSubstr("without a majority"), HasSubstr("rank 0 ("), HasSubstr("against rank 1 (")));
  } else {
    EXPECT_THAT(outcome.error, HasSubstr(fmt::format("rank {} (", flip.rank)));
    EXPECT_THAT(outcome.error,
                HasSubstr(fmt::format("holds other bits than the {} others", ranks() - 1)));
  }
}

TEST(ReplicaCheck, AFlippedBitOfAWeightIsFound) {
  for (const int bit : {0, 12, 31})
    expect_found({.rank = 1, .after_step = 3, .array = 0, .index = 5000, .bit = bit}, "parameters");
}

TEST(ReplicaCheck, AFlippedBitOnRankZeroIsFound) {
  expect_found({.rank = 0, .after_step = 3, .array = 0, .index = 77, .bit = 20}, "parameters");
}

TEST(ReplicaCheck, AFlippedBitOfAMomentIsFound) {
  const int last = ranks() - 1;
  expect_found({.rank = last, .after_step = 3, .array = 1, .index = 123, .bit = 22},
               "optimizer exp_avg, bucket");
  expect_found({.rank = last, .after_step = 3, .array = 2, .index = 9000, .bit = 22},
               "optimizer exp_avg_sq, bucket");
}

TEST(ReplicaCheck, OnlyWhatDiffersIsNamed) {
  // The second moment of the last step before a comparison has reached no weight yet.
  const Outcome outcome = train_with(
      four_steps_of_adamw(), {{.rank = 0, .after_step = 6, .array = 2, .index = 9000, .bit = 3}});
  const std::string tensor = broadcast(outcome.tensor, 0);
  EXPECT_THAT(outcome.error, HasSubstr("replicas differ after step 6"));  // by that of the end
  EXPECT_THAT(outcome.error, Not(HasSubstr("parameters")));
  EXPECT_THAT(outcome.error, HasSubstr("(" + tensor.substr(0, tensor.find(".exp_avg")) + ")"));
}

TEST(ReplicaCheck, TwoRanksThatDifferAreBothNamed) {
  if (ranks() < 4) GTEST_SKIP() << "needs 4 ranks";
  const Outcome outcome =
      train_with(four_steps_of_adamw(),
                 {{.rank = 1, .after_step = 1, .array = 0, .index = 10, .bit = 9},
                  {.rank = 3, .after_step = 1, .array = 0, .index = 9999, .bit = 9}});
  EXPECT_THAT(outcome.error, HasSubstr("ranks 1 ("));
  EXPECT_THAT(outcome.error, HasSubstr(", 3 ("));
  EXPECT_THAT(outcome.error, HasSubstr("hold other bits than the 2 others"));
}

TEST(ReplicaCheck, WithoutComparisonsNothingIsFound) {
  testing::SmallRun run = four_steps_of_adamw();
  run.options.check_replicas_every = 0;
  EXPECT_EQ(train_with(run, {{.rank = 1, .after_step = 2, .array = 0, .index = 1, .bit = 1}}).error,
            "no error");
}

// A hash a step, over what could differ for a reason that is none.
void expect_silence(testing::SmallRun run) {
  run.options.check_replicas_every = 1;
  run.options.steps = 5;
  EXPECT_EQ(train_with(run, {}).error, "no error");
}

TEST(ReplicaCheck, HealthyRunsRaiseNoAlarm) {
  expect_silence(testing::small_resnet());  // dropout, batch norm, short micro-batches
  expect_silence(testing::small_gpt());
  testing::SmallRun bf16 = testing::small_resnet();
  bf16.options.precision = Precision::bf16;
  expect_silence(bf16);
  testing::SmallRun fast = testing::small_resnet();
  fast.options.reduction = Reduction::fast;
  expect_silence(fast);
  testing::SmallRun frozen = testing::small_resnet();
  frozen.options.freeze = {"layer1"};
  expect_silence(frozen);
}

TEST(ReplicaCheck, GroupsOfBatchNormRaiseNoAlarm) {
  testing::SmallRun run = testing::small_resnet();
  run.options.batch_norm = BatchNormPolicy::parse("sync");
  if (ranks() != 3) expect_silence(run);
  if (ranks() == 4) {
    run.options.global_batch = 32;
    run.options.batch_norm = BatchNormPolicy::parse("group:16");
    expect_silence(run);
  }
}

TEST(ReplicaCheck, AResumedRunRaisesNoAlarm) {
  const std::filesystem::path folder = broadcast(
      (std::filesystem::temp_directory_path() / fmt::format("lockstep_replica_check_{}", getpid()))
          .string(),
      0);
  if (rank() == 0) std::filesystem::create_directories(folder);
  testing::mpi_world().barrier();
  testing::SmallRun run = testing::small_resnet();
  run.options.check_replicas_every = 2;
  run.options.steps = 6;
  run.options.checkpoint.folder = folder.string();
  run.options.checkpoint.every_steps = 3;
  const std::string sha = testing::train(run, testing::mpi_world()).weights_sha256;
  run.options.checkpoint.resume = (folder / io::checkpoint_name(3)).string();
  run.options.checkpoint.folder.clear();
  run.options.check_replicas_every = 1;  // may differ from the checkpoint's
  const TrainSummary resumed = testing::train(run, testing::mpi_world());
  EXPECT_EQ(resumed.resumed_at, 3);
  EXPECT_EQ(resumed.weights_sha256, sha);
  testing::mpi_world().barrier();
  if (rank() == 0) std::filesystem::remove_all(folder);
}

TEST(ReplicaGroups, TheLargestGroupIsRightUnlessAnotherIsAsLarge) {
  using Groups = std::vector<std::vector<int>>;
  const auto check = [](std::vector<std::uint64_t> values, Groups groups, bool has_majority) {
    const RankGroups got = group_ranks(values);
    EXPECT_EQ(got.groups, groups);
    EXPECT_EQ(got.has_majority, has_majority);
  };
  check({5, 5, 5, 9}, {{0, 1, 2}, {3}}, true);
  check({9, 5, 5}, {{1, 2}, {0}}, true);
  check({1, 2}, {{0}, {1}}, false);
  check({1, 2, 1, 2}, {{0, 2}, {1, 3}}, false);
  check({3, 2, 1}, {{0}, {1}, {2}}, false);
  check({7, 4, 4, 1}, {{1, 2}, {0}, {3}}, true);
}

}  // namespace
}  // namespace lockstep
