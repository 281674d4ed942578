// SPDX-License-Identifier: Apache-2.0
// Parts of `lockstep run`: restarts, hosts, plans of what is started.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/launch/hosts.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/launch/launch_site.h"
#include "launcher/launch/mpirun_version.h"
#include "launcher/launch/restart_policy.h"
#include "launcher/launch/run_flags.h"
#include "launcher/launch/run_progress.h"
#include "launcher/launch/slurm_nodes.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Verdict = RestartPolicy::Verdict;

Attempt attempt(int exit_code) {
  Attempt result;
  result.exit_code = exit_code;
  return result;
}

TEST(RestartPolicy, WhatIsNotRetried) {
  RestartPolicy policy(3, 1);
  EXPECT_EQ(policy.next(attempt(0)), Verdict::done);
  EXPECT_EQ(policy.next(attempt(75)), Verdict::stopped);
  EXPECT_EQ(policy.next(attempt(2)), Verdict::failed);
  EXPECT_EQ(policy.next(attempt(7)), Verdict::failed);
  for (const int code : {1, 3, 4}) {
    Attempt first = attempt(code);
    first.first = true;
    first.trained = false;
    EXPECT_EQ(policy.next(first), Verdict::failed) << code;
    first.trained = true;
    EXPECT_EQ(policy.next(first), Verdict::restart) << code;
  }
  Attempt frozen = attempt(5);
  frozen.first = true;
  frozen.trained = false;
  RestartPolicy fresh(1, 1);
  EXPECT_EQ(fresh.next(frozen), Verdict::restart) << "a neighbour failed, even before the start";
}

TEST(RestartPolicy, AStopIsNoFailure) {
  RestartPolicy policy(3, 1);
  Attempt stopped = attempt(137);
  stopped.stop_requested = true;
  EXPECT_EQ(policy.next(stopped), Verdict::stopped);
  stopped.exit_code = 1;
  EXPECT_EQ(policy.next(stopped), Verdict::failed);
  stopped.out_of_grace = true;  // mpirun that was ended with its ranks
  EXPECT_EQ(policy.next(stopped), Verdict::stopped);
  stopped.exit_code = 0;
  EXPECT_EQ(policy.next(stopped), Verdict::done);
}

TEST(RestartPolicy, AMoveIsNoRestart) {
  RestartPolicy policy(0, 1);
  Attempt moves = attempt(75);
  moves.moves = true;
  EXPECT_EQ(policy.next(moves), Verdict::move);
  moves.exit_code = 138;  // SIGUSR1 came to ranks that were starting
  EXPECT_EQ(policy.next(moves), Verdict::move);
  moves.exit_code = 137;  // ranks that did not stop within the grace time
  moves.out_of_grace = true;
  EXPECT_EQ(policy.next(moves), Verdict::move);
  EXPECT_EQ(policy.restarts(), 0);
  moves.stop_requested = true;
  EXPECT_EQ(policy.next(moves), Verdict::stopped);
  moves.exit_code = 0;
  EXPECT_EQ(policy.next(moves), Verdict::done) << "the last step came first";
  Attempt failed = attempt(137);
  failed.moves = true;
  EXPECT_EQ(policy.next(failed), Verdict::exhausted) << "a rank was killed meanwhile";
}

TEST(RestartPolicy, AMoveWithACheckpointEndsARowOfRestarts) {
  RestartPolicy policy(1, 1);
  EXPECT_EQ(policy.next(attempt(137)), Verdict::restart);
  Attempt moves = attempt(75);
  moves.moves = moves.progress = true;
  EXPECT_EQ(policy.next(moves), Verdict::move);
  EXPECT_EQ(policy.next(attempt(137)), Verdict::restart);
  EXPECT_EQ(policy.next(attempt(137)), Verdict::exhausted);
}

TEST(RestartPolicy, ProgressResetsCountAndPause) {
  RestartPolicy policy(2, 5);
  EXPECT_EQ(policy.next(attempt(137)), Verdict::restart);
  EXPECT_EQ(policy.pause(), 0);
  EXPECT_EQ(policy.next(attempt(137)), Verdict::restart);
  EXPECT_EQ(policy.pause(), 5);
  Attempt further = attempt(137);
  further.progress = true;
  EXPECT_EQ(policy.next(further), Verdict::restart);
  EXPECT_EQ(policy.pause(), 0);
  EXPECT_EQ(policy.next(attempt(137)), Verdict::restart);
  EXPECT_EQ(policy.next(attempt(137)), Verdict::exhausted);
  EXPECT_EQ(policy.restarts(), 4);
}

TEST(RestartPolicy, PausesEndAtFiveMinutesAndNoRestartsAreAllowed) {
  RestartPolicy policy(100, 5);
  for (int i = 0; i < 50; ++i) policy.next(attempt(137));
  EXPECT_EQ(policy.pause(), 300);
  EXPECT_EQ(RestartPolicy(0, 5).next(attempt(137)), Verdict::exhausted);
}

TEST(Hosts, ListsAndFiles) {
  EXPECT_THAT(parse_hosts("a:2,b,a:1"), ElementsAre(Host{"a", 3}, Host{"b", 1}));
  const fs::path file = fs::path(testing::TempDir()) / "lockstep_hosts";
  std::ofstream(file) << "# ours\na slots=2 max_slots=4\n\nb:3  # new\nc 4\n";
  const std::vector<Host> hosts = parse_hosts(file.string());
  EXPECT_EQ(to_string(hosts), "a:2,b:3,c:4");
  EXPECT_EQ(slots_of(hosts), 9);
  fs::remove(file);
}

TEST(Hosts, Refusals) {
  for (const char* text : {"",
                           "a:0",
                           "a:two",
                           "a:2x",
                           "-oProxyCommand=x:1",
                           "no/such/file",
                           ",",
                           "a:1:2",
                           "$(x)",
                           "a b:c",
                           "\n"})
    EXPECT_THROW(parse_hosts(text), ConfigError) << text;
}

TEST(Hosts, AMessageQuotesTheListAsItWasWritten) {
  try {
    parse_hosts("`out`:0");
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("`out`:0"));
  }
}

TEST(Hosts, OnlyThoseThatAnswerRemain) {
  const fs::path probe = fs::path(testing::TempDir()) / "lockstep_ssh";
  std::ofstream(probe)
      << "#!/bin/bash\n[[ $* == '-o BatchMode=yes -o ConnectTimeout=5 b true' ]]\n";
  fs::permissions(probe, fs::perms::owner_all);
  EXPECT_EQ(
      to_string(answering_hosts(parse_hosts("a:1,b:2,localhost:4"), {.path = probe.string()})),
      "b:2,localhost:4");
  EXPECT_TRUE(answering_hosts(parse_hosts("a"), {.path = "/no/such/ssh"}).empty());
  fs::remove(probe);
}

LaunchSite site() {
  LaunchSite result;
  result.mpirun = "/usr/bin/mpirun";
  result.srun = "/usr/bin/srun";
  result.program = "/opt/lockstep";
  result.cores = {4, true};
  return result;
}

TEST(LaunchCommand, Srun) {
  EXPECT_THAT(launch_command(Launcher::srun, 3, site(), {"--lr", "1"}, "/out"),
              ElementsAre("/usr/bin/srun",
                          "--mpi=pmix",
                          "--ntasks",
                          "3",
                          "--kill-on-bad-exit=1",
                          "--label",
                          "/opt/lockstep",
                          "train",
                          "--lr",
                          "1"));
}

TEST(LaunchCommand, SrunTakesTheCpusOfTheAllocation) {
  LaunchSite allocation = site();
  allocation.cpus_per_task = 8;
  EXPECT_THAT(testing::PrintToString(launch_command(Launcher::srun, 3, allocation, {}, "/out")),
              HasSubstr("\"--cpus-per-task=8\", \"/opt/lockstep\""));
}

TEST(LaunchCommand, SrunOnNodesThatAreLeft) {
  LaunchSite allocation = site();
  allocation.lost_nodes = true;
  EXPECT_THAT(launch_command(Launcher::srun, 3, allocation, {}, "/out"), Contains("--overlap"));
  allocation.hosts = parse_hosts("n1:2,n3:2,n4:2");
  for (const auto& [ranks, nodes] : {std::pair(2, "\"--nodes=2\", \"--nodelist=n1,n3\""),
                                     std::pair(6, "\"--nodes=3\", \"--nodelist=n1,n3,n4\"")})
    EXPECT_THAT(
        testing::PrintToString(launch_command(Launcher::srun, ranks, allocation, {}, "/out")),
        HasSubstr(nodes));
}

TEST(LaunchCommand, TasksOfAnAllocation) {
  EXPECT_THAT(tasks_by_node("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_EQ(allocated_tasks("2(x3),1"), 7);
  EXPECT_EQ(allocated_tasks("4"), 4);
  EXPECT_EQ(allocated_tasks(""), 0);
  EXPECT_EQ(allocated_tasks("many"), 0);
}

TEST(LaunchCommand, MpirunOnOtherHosts) {
  LaunchSite two = site();
  two.hosts = parse_hosts("a:2,b:1");
  two.ssh = "rsh";
  two.carried_variables = {"LOCKSTEP_PLAN"};
  const std::string text =
      testing::PrintToString(launch_command(Launcher::mpirun, 3, two, {}, "/out"));
  EXPECT_THAT(text, HasSubstr("\"--host\", \"a:2,b:1\""));
  EXPECT_THAT(text, HasSubstr("\"plm_rsh_agent\", \"rsh\""));
  EXPECT_THAT(text, HasSubstr("\"-x\", \"LOCKSTEP_PLAN\""));
  EXPECT_THAT(text, HasSubstr("\"--output-filename\", \"/out\""));
  EXPECT_THAT(text, Not(HasSubstr("regx")));
}

// mpirun 4.1 writes it between double quotes of a shell's command.
TEST(LaunchCommand, NothingThatAShellWouldReadReachesAnotherHost) {
  LaunchSite two = site();
  two.hosts = parse_hosts("a_1:2,me@b:1");
  for (const char* folder :
       {"/o$(touch x)", "/`x`", "/a\"b", "/a\nb", "/a b", "/a:b", "/\xc3\xa4"}) {
    const std::string text =
        testing::PrintToString(launch_command(Launcher::mpirun, 3, two, {}, folder));
    EXPECT_THAT(text, Not(HasSubstr("--output-filename"))) << folder;
    EXPECT_THAT(text, HasSubstr("\"--mca\", \"regx\", \"naive\"")) << "names that break otherwise";
  }
}

TEST(LaunchCommand, OpenMpi5KeepsNoRawOutput) {
  LaunchSite five = site();
  five.open_mpi = 5;
  five.hosts = parse_hosts("a_1:2,b:1");
  const std::vector<std::string> words = launch_command(Launcher::mpirun, 3, five, {}, "/out");
  EXPECT_THAT(words, Not(Contains("--output"))) << "it would lose what ranks say on the screen";
  EXPECT_THAT(words, Not(Contains("--output-filename")));
  EXPECT_THAT(words, Not(Contains("regx"))) << "Open MPI 5 has no such framework";
}

TEST(LaunchCommand, TheVersionOfMpirun) {
  EXPECT_EQ(mpirun_version("mpirun (Open MPI) 4.1.4\n\nReport bugs to x").open_mpi, 4);
  EXPECT_EQ(mpirun_version("mpirun (Open MPI) 5.0.7").open_mpi, 5);
  EXPECT_EQ(mpirun_version("mpirun (Open MPI) 5.0.7").other, "");
  EXPECT_EQ(mpirun_version("HYDRA build details:\n    Version: 4.0.2").open_mpi, 0);
  EXPECT_EQ(mpirun_version("HYDRA build details:\n    Version: 4.0.2").other, "MPICH");
  EXPECT_EQ(mpirun_version("Intel(R) MPI Library for Linux* OS, Version 2021.11").other,
            "Intel MPI");
  EXPECT_EQ(mpirun_version("").open_mpi, 0);
  EXPECT_EQ(mpirun_version_of("/no/such/mpirun").open_mpi, 0);
}

TEST(ChooseLauncher, MpirunOfAnotherMpiStartsNothing) {
  LaunchSite here = site();
  here.srun.clear();
  here.other_mpi = "MPICH";
  RunFlags flags;
  try {
    choose_launcher(flags, here, 4);
    FAIL() << "expected an error";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/usr/bin/mpirun is that of MPICH"));
    EXPECT_THAT(error.hint(), HasSubstr("mpiexec -n 4 lockstep train"));
  }
  EXPECT_EQ(choose_launcher(flags, here, 1), Launcher::none);
}

TEST(RunFlags, OwnFlagsAndThoseOfTrain) {
  const RunFlags flags = parse_run_flags({"train",
                                          "--max-restarts=7",
                                          "--out",
                                          "x",
                                          "--lr",
                                          "0.5",
                                          "--hosts=a:2",
                                          "--ranks",
                                          "2",
                                          "--grace",
                                          "9",
                                          "--force"});
  EXPECT_EQ(flags.max_restarts, 7);
  EXPECT_EQ(flags.grace_s, 9);
  EXPECT_EQ(flags.train.ranks, 2);
  EXPECT_EQ(flags.train.out, "x");
  EXPECT_THAT(train_arguments(flags, false),
              ElementsAre("--out", "x", "--lr", "0.5", "--force", "--ranks", "auto"));
  EXPECT_THAT(train_arguments(flags, true),
              ElementsAre("--out", "x", "--lr", "0.5", "--resume", "auto", "--ranks", "auto"));
  EXPECT_THAT(train_arguments(parse_run_flags({"--out=x"}), false),
              ElementsAre("--out=x", "--resume", "auto", "--ranks", "auto"));
}

TEST(RunFlags, ARangeOfRanks) {
  const RunFlags flags = parse_run_flags(
      {"--out=x", "--hosts=a:2,b:3", "--ranks=2:4", "--global-batch=12", "--micro-batch=1"});
  ASSERT_TRUE(flags.rank_range);
  EXPECT_EQ(flags.rank_range->min, 2);
  EXPECT_EQ(flags.rank_range->max, 4);
  EXPECT_EQ(flags.hosts_text, "a:2,b:3");
  EXPECT_EQ(flags.train.ranks, 0);
  EXPECT_EQ(ranks_on(flags, 1), 0);
  EXPECT_EQ(ranks_on(flags, 2), 2);
  EXPECT_EQ(ranks_on(flags, 5), 4);
  EXPECT_FALSE(parse_run_flags({"--out=x", "--ranks=2"}).rank_range);
  for (const char* wrong : {"3:2", "0:2", "2:", ":2", ":", "a:2", "2:70000", "1:2:3", "1 :2"})
    EXPECT_THROW(parse_run_flags({"--out=x", "--ranks", wrong}), ConfigError) << wrong;
}

TEST(RunFlags, ARangeOfRanksThatTheBatchNarrows) {
  const auto flags = [](const char* range) {
    return parse_run_flags({"--out=x",
                            "--hosts=a:9",
                            "--global-batch=32",
                            "--micro-batch=4",
                            "--batch-norm=group:8",
                            "--ranks",
                            range});
  };
  EXPECT_EQ(ranks_on(flags("1:4"), 4), 4);
  EXPECT_EQ(ranks_on(flags("1:4"), 3), 2) << "groups of two ranks";
  EXPECT_EQ(ranks_on(flags("3:3"), 3), 0);
  for (const int devices : {0, -1}) EXPECT_EQ(ranks_on(flags("1:4"), devices), 0);
  EXPECT_THROW(parse_run_flags({"--out=x", "--ranks=1:2", "--global-batch=32", "--accumulation=4"}),
               ConfigError);
}

TEST(RunFlags, AFileOfHostsKeepsItsPlace) {
  const fs::path folder = fs::path(testing::TempDir()) / "lockstep_hosts_file";
  fs::create_directories(folder);
  std::ofstream(folder / "hosts") << "a:2\n";
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  const RunFlags flags = parse_run_flags({"--out=x", "--hosts=hosts", "--ranks=1:2"});
  fs::current_path(before);
  fs::remove_all(folder);
  EXPECT_EQ(flags.hosts, (std::vector<Host>{{"a", 2}}));
  EXPECT_THROW(parse_hosts(flags.hosts_text), ConfigError) << "not the host of that name";
}

TEST(LaunchCommand, AColonInThePathOfRawOutput) {
  EXPECT_THAT(launch_command(Launcher::mpirun, 2, site(), {}, "/runs/12:30/logs"),
              Not(Contains("--output-filename")));
}

TEST(RunFlags, ARestartGoesOnInTheFolderThatResumeNamed) {
  const fs::path run = fs::path(testing::TempDir()) / "lockstep_resumed";
  fs::create_directories(run);
  const std::string named = "--resume=" + run.string();
  const RunFlags flags = parse_run_flags({named});
  EXPECT_THAT(train_arguments(flags, false), ElementsAre(named, "--ranks", "auto"));
  EXPECT_THAT(train_arguments(flags, true),
              ElementsAre(named, "--resume", "auto", "--out", run.string(), "--ranks", "auto"));
  fs::remove(run);
}

TEST(RunProgress, IsKeptWhereItCannotBeRead) {
  const fs::path out = fs::path(testing::TempDir()) / "lockstep_standing";
  fs::remove_all(out);
  fs::create_directories(out / "checkpoints/step_00000007");
  EXPECT_EQ(glance_at(out, {}).step, 7);
  EXPECT_EQ(verify_in(out, {}).step, -1) << "it is damaged";
  fs::remove_all(out / "checkpoints");
  std::ofstream(out / "checkpoints") << "no folder";
  const RunProgress before{5, 2.5};
  EXPECT_EQ(glance_at(out, before).step, 5);
  EXPECT_EQ(verify_in(out, before).step, 5);
  fs::remove_all(out);
}

TEST(RunFlags, Refusals) {
  EXPECT_THROW(parse_run_flags({}), ConfigError);
  EXPECT_THROW(parse_run_flags({"--out=x", "--max-restarts=-1"}), ConfigError);
  EXPECT_THROW(parse_run_flags({"--out=x", "--grcae=3"}), ConfigError);
  EXPECT_THROW(parse_run_flags({"--out=x", "--launcher=prun"}), ConfigError);
  EXPECT_THAT(parse_run_flags({"--help"}).help, HasSubstr("--max-restarts"));
}

}  // namespace
}  // namespace lockstep
