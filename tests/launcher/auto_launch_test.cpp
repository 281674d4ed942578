// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/auto_launch.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/settings/flags.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TrainFlags flags_of(const std::vector<std::string>& arguments) {
  return parse_train_flags(arguments);
}

StartConditions conditions(int cores) {
  StartConditions result;
  result.cores.count = cores;
  result.mpirun = "/usr/bin/mpirun";
  result.program = "/opt/lockstep";
  return result;
}

TEST(SelfStart, OneRankACoreButNoMoreThanShards) {
  EXPECT_EQ(choose_ranks(flags_of({}), 4), 4);
  EXPECT_EQ(choose_ranks(flags_of({}), 100), 8);  // 256 / 32 micro-batches
  EXPECT_EQ(choose_ranks(flags_of({"--shards=2"}), 4), 2);
  EXPECT_EQ(choose_ranks(flags_of({"--global-batch=32"}), 4), 2);  // of 16
  EXPECT_EQ(choose_ranks(flags_of({"--batch-norm=group:64"}), 3), 2);
  EXPECT_EQ(choose_ranks(flags_of({"--accumulation=4", "--micro-batch=32"}), 4), 2);
  EXPECT_EQ(choose_ranks(flags_of({"--ranks=3"}), 1), 3);
}

TEST(SelfStart, ImpossibleBatchesAreRefusedBeforeAnythingStarts) {
  EXPECT_THROW(choose_ranks(flags_of({"--ranks=9"}), 1), ConfigError);
  EXPECT_THROW(choose_ranks(flags_of({"--ranks=8", "--global-batch=4"}), 1), ConfigError);
  EXPECT_THROW(choose_ranks(flags_of({"--accumulation=3", "--micro-batch=32"}), 4), ConfigError);
}

TEST(SelfStart, CommandLine) {
  StartPlan plan = plan_start(flags_of({}), {"--lr", "0.5"}, conditions(2));
  EXPECT_EQ(plan.ranks, 2);
  EXPECT_EQ(plan.command.front(), "/usr/bin/mpirun");
  EXPECT_THAT(testing::PrintToString(plan.command),
              HasSubstr("\"--bind-to\", \"core\", \"/opt/lockstep\", \"train\", \"--lr\", "
                        "\"0.5\""));
  EXPECT_THAT(plan.command, Not(Contains("--oversubscribe")));
  EXPECT_THAT(plan.command, Not(Contains("--allow-run-as-root")));
  EXPECT_THAT(plan.message, HasSubstr("2 ranks"));
}

TEST(SelfStart, SaysWhichDevicesAreIdleAndWhichFlagHelps) {
  const auto message = [](const std::vector<std::string>& arguments, int cores) {
    return plan_start(flags_of(arguments), arguments, conditions(cores)).message;
  };
  EXPECT_THAT(
      message({"--global-batch=32"}, 4),
      AllOf(HasSubstr("2 ranks"), HasSubstr("2 of 4 cores"), HasSubstr("--micro-batch 8 ")));
  EXPECT_THAT(message({"--global-batch=32", "--micro-batch=32"}, 2),
              AllOf(HasSubstr("1 of 2 cores"), HasSubstr("--micro-batch 16 ")));
  EXPECT_THAT(message({"--shards=2"}, 3), HasSubstr("1 of 3 cores"));
  EXPECT_THAT(message({"--global-batch=2"}, 4), HasSubstr("2 of 4 cores"));
  for (const char* ranks : {"--ranks=1", "--ranks=2"})
    EXPECT_THAT(message({"--global-batch=32", ranks}, 4), Not(HasSubstr("idle")));
  EXPECT_THAT(message({"--global-batch=32"}, 2), Not(HasSubstr("idle")));
}

TEST(SelfStart, OneRankAGpuAndNotBound) {
  StartConditions machine = conditions(64);
  machine.gpus = 4;
  const StartPlan plan = plan_start(flags_of({}), {}, machine);
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_THAT(testing::PrintToString(plan.command), HasSubstr("\"--bind-to\", \"none\""));
  EXPECT_THAT(plan.message, HasSubstr("on 4 GPUs"));
}

TEST(SelfStart, MoreRanksThanCoresAreNotBound) {
  StartConditions two = conditions(2);
  two.root = true;
  const StartPlan plan = plan_start(flags_of({"--ranks=4"}), {}, two);
  EXPECT_THAT(plan.command, Contains("--oversubscribe"));
  EXPECT_THAT(plan.command, Contains("none"));
  EXPECT_THAT(plan.command, Contains("--allow-run-as-root"));
}

TEST(SelfStart, PartOfAHostIsNotBound) {
  StartConditions masked = conditions(2);
  masked.cores.all_of_host = false;
  EXPECT_THAT(plan_start(flags_of({}), {}, masked).command, Contains("none"));
}

TEST(SelfStart, NeverUnderALauncherOrInAnAllocation) {
  StartConditions launched = conditions(8);
  launched.discovery.launched_by = LaunchedBy::mpi;
  EXPECT_EQ(plan_start(flags_of({}), {}, launched).ranks, 1);
  StartConditions slurm = conditions(8);
  slurm.discovery.slurm_allocation = true;
  slurm.discovery.slurm_tasks_unused = 4;
  const StartPlan plan = plan_start(flags_of({}), {}, slurm);
  EXPECT_EQ(plan.ranks, 1);
  EXPECT_THAT(plan.message, HasSubstr("srun --mpi=pmix -n 4 lockstep train"));
}

TEST(SelfStart, RanksInAnAllocationAreSruns) {
  StartConditions slurm = conditions(8);
  slurm.discovery.slurm_allocation = true;
  EXPECT_EQ(plan_start(flags_of({"--ranks=1"}), {}, slurm).ranks, 1);
  try {
    plan_start(flags_of({"--ranks=4"}), {}, slurm);
    FAIL() << "no error";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.hint(), HasSubstr("srun --mpi=pmix -n 4 lockstep train"));
  }
}

TEST(SelfStart, ALoneColonDoesNotSplitTheCommand) {
  const StartPlan plan = plan_start(flags_of({}), {"--out", ":", "--lr", "1"}, conditions(2));
  EXPECT_THAT(plan.command, Not(Contains(":")));
  EXPECT_THAT(plan.command, Contains("--out=:"));
}

TEST(SelfStart, TheMarkerStopsRecursion) {
  StartConditions again = conditions(8);
  again.started_already = true;
  EXPECT_THROW(plan_start(flags_of({}), {}, again), EnvironmentError);
}

TEST(SelfStart, WithoutMpirun) {
  StartConditions bare = conditions(8);
  bare.mpirun.clear();
  const StartPlan plan = plan_start(flags_of({}), {}, bare);
  EXPECT_EQ(plan.ranks, 1);
  EXPECT_THAT(plan.message, HasSubstr("mpirun is not in PATH"));
  EXPECT_THROW(plan_start(flags_of({"--ranks=2"}), {}, bare), EnvironmentError);
  bare.no_mpirun = "this program was built without MPI";
  EXPECT_THAT(plan_start(flags_of({}), {}, bare).message,
              HasSubstr("could be used, but this program was built without MPI: training on one"));
}

TEST(SelfStart, RanksMustFitTheLauncher) {
  EXPECT_NO_THROW(check_launched_ranks(flags_of({}), 3));
  EXPECT_NO_THROW(check_launched_ranks(flags_of({"--ranks=3"}), 3));
  EXPECT_THROW(check_launched_ranks(flags_of({"--ranks=2"}), 3), ConfigError);
}

TEST(SelfStart, RanksOfATypedFileAreThoseOfTheUser) {
  namespace fs = std::filesystem;
  const fs::path run = fs::path(testing::TempDir()) / "lockstep_ranks";
  fs::create_directories(run);
  const std::string config = (run / "config.toml").string();
  std::ofstream(config) << "ranks = 4\n";
  std::ofstream(run / "history.jsonl");
  StartConditions slurm = conditions(8);
  slurm.discovery.slurm_allocation = true;
  const TrainFlags typed = flags_of({"--config", config});
  EXPECT_THROW(check_launched_ranks(typed, 2), ConfigError);
  EXPECT_THROW(plan_start(typed, {}, slurm), EnvironmentError);
  // A run may be resumed on any number.
  const TrainFlags resumed = flags_of({"--resume", run.string()});
  EXPECT_EQ(resumed.ranks, 4);
  EXPECT_NO_THROW(check_launched_ranks(resumed, 2));
  EXPECT_EQ(plan_start(resumed, {}, slurm).ranks, 1);
  fs::remove_all(run);
}

TEST(Cores, QuotaOfTheNearestGroups) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "lockstep_cgroup";
  fs::remove_all(root);
  fs::create_directories(root / "a/b");
  fs::create_directories(root / "cpu/c");
  std::ofstream(root / "a/cpu.max") << "150000 100000\n";
  std::ofstream(root / "a/b/cpu.max") << "max 100000\n";
  std::ofstream(root / "cpu/c/cpu.cfs_quota_us") << "300000\n";
  std::ofstream(root / "cpu/c/cpu.cfs_period_us") << "100000\n";
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root, "0::/a/b\n"), 1.5);
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root, "0::/\n"), 0);
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root, "4:memory:/x\n3:cpu,cpuacct:/c\n"), 3);
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root, ""), 0);
  EXPECT_GE(available_cores().count, 1);
  fs::remove_all(root);
}

}  // namespace
}  // namespace lockstep
