// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_folder.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/resource.h>
#include <unistd.h>

#include "launcher/output/recovery.h"
#include "launcher/output/run_folder_files.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr auto kNothing = RunFolder::Existing::nothing, kAnything = RunFolder::Existing::anything;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            (std::string("lockstep_run_") +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string out() const { return (root_ / "run").string(); }
  static std::string read(const fs::path& file) {
    std::ifstream input(file);
    return {std::istreambuf_iterator<char>(input), {}};
  }
  fs::path root_;
};

TEST_F(RunFolderTest, WhatASupervisorTellsOfAFaultIsRecordedAfterTheFirstStep) {
  const double now = unix_seconds();
  const RestartFacts told{.fault = "rank 3 on n\"7 was ended by signal 9",
                          .exit_code = 137,
                          .restart = 2,
                          .step = 101,
                          .reported = now - 4,
                          .ended = now - 3,
                          .started = now - 1};
  EXPECT_EQ(parse_restart_facts("1"), std::nullopt);
  const std::optional<RestartFacts> facts = parse_restart_facts(to_text(told));
  ASSERT_TRUE(facts);
  RunFolder folder(out(), kNothing);
  folder.begin();
  Console console(Console::Kind::lines);
  Recovery recovery(*facts, folder, console);
  ResumeRecord resumed;
  resumed.step = 90;
  recovery.on_start(&resumed);
  EXPECT_THAT(read(out() + "/metrics.jsonl"), IsEmpty());
  recovery.on_first_step();
  EXPECT_THAT(read(out() + "/metrics.jsonl"),
              AllOf(HasSubstr("\"step\":90"),
                    HasSubstr(R"("fault":"rank 3 on n\"7 was ended by signal 9")"),
                    HasSubstr("\"lost_steps\":10"),
                    HasSubstr("\"restart\":2"),
                    HasSubstr("\"exit_code\":137")));
}

TEST_F(RunFolderTest, WritesStepsEvaluationsAndSummary) {
  RunFolder folder(out(), kNothing);
  folder.begin();
  StepRecord step;
  step.step = 50;
  step.loss = std::nan("");
  step.grad_norm = -1;
  folder.on_step(step);
  EvaluationRecord evaluation;
  evaluation.val_accuracy = 0.5;
  folder.on_evaluation(evaluation);
  TrainSummary summary;
  summary.weights_sha256 = "abc";
  folder.on_end(summary);
  EXPECT_THAT(folder.finish(), IsEmpty());
  const std::string metrics = read(out() + "/metrics.jsonl");
  EXPECT_THAT(metrics,
              AllOf(HasSubstr("{\"step\":50,\"epoch\":0.0"),
                    HasSubstr("\"loss\":null"),
                    HasSubstr("\"grad_norm\":null"),
                    HasSubstr("\"val_accuracy\":0.5")));
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 2);
  EXPECT_THAT(read(out() + "/summary.json"),
              AllOf(HasSubstr("\"weights_sha256\": \"abc\""), HasSubstr("\"val_loss\": null")));
}

TEST_F(RunFolderTest, WritesWhatADevicesClockMeasured) {
  RunFolder folder(out(), kNothing);
  folder.begin();
  StepRecord step;
  folder.on_step(step);
  EXPECT_THAT(read(out() + "/metrics.jsonl"), Not(HasSubstr("device\"")));
  step.device_ms = DeviceTimes{{1, 2, 0, 0.5, 0.25}};
  folder.on_step(step);
  TrainSummary summary;
  summary.device_times = {{4, 8, 0, 2, 1}};
  summary.device_steps = 3;
  folder.on_end(summary);
  EXPECT_THAT(folder.finish(), IsEmpty());
  EXPECT_THAT(read(out() + "/metrics.jsonl"),
              HasSubstr("\"device\":{\"forward_ms\":1.0,\"backward_ms\":2.0,\"exchange_ms\":0.0,"
                        "\"optimizer_ms\":0.5,\"idle_ms\":0.25}"));
  EXPECT_THAT(read(out() + "/summary.json"), HasSubstr("\"device_times\""));
}

TEST_F(RunFolderTest, WritesHowGpusWereUsedWhereThereAreAny) {
  RunFolder folder(out(), kNothing);
  folder.begin();
  StepRecord step;
  folder.on_step(step);
  EXPECT_THAT(read(out() + "/metrics.jsonl"), Not(HasSubstr("gpu")));
  TrainSummary summary;
  folder.on_end(summary);
  EXPECT_THAT(read(out() + "/summary.json"), Not(HasSubstr("gpu")));
  step.gpu.emplace().values[GpuQuantity::busy] = 0.75;
  step.gpu->values[GpuQuantity::memory_bytes] = 2048;
  folder.on_step(step);
  EXPECT_THAT(read(out() + "/metrics.jsonl"),
              HasSubstr("\"gpu_busy\":0.75,\"gpu_memory_bytes\":2048,\"gpu_bus_busy\":null,"
                        "\"gpu_power_w\":null,\"gpu_clock_mhz\":null}"));
  summary.gpus.resize(2);
  summary.gpus[1].add(*step.gpu);
  folder.on_end(summary);
  const std::string written = read(out() + "/summary.json");
  EXPECT_THAT(written, AllOf(HasSubstr("\"gpus\": ["), HasSubstr("\"mean\": 0.75")));
  EXPECT_THAT(folder.finish(), IsEmpty());
}

TEST_F(RunFolderTest, KeepsAnEarlierRun) {
  fs::create_directories(out());
  std::ofstream(out() + "/summary.json") << "{}";
  EXPECT_THROW(RunFolder(out(), kNothing), ConfigError);
  EXPECT_THROW(RunFolder::check(out(), kNothing), ConfigError);
  EXPECT_TRUE(fs::exists(out() + "/summary.json"));
  RunFolder folder(out(), kAnything);
  EXPECT_TRUE(fs::exists(out() + "/summary.json")) << "gone before the new run is accepted";
  folder.begin();
  EXPECT_FALSE(fs::exists(out() + "/summary.json")) << "results of the earlier run remain";
}

// A start over an earlier one, killed at any moment, leaves a folder that the next may continue in.
TEST_F(RunFolderTest, AFolderIsARunsFromItsFirstStartOn) {
  constexpr auto kOwn = RunFolder::Existing::own_run;
  for (const char* line : {"first", "second"}) {
    RunFolder folder(out(), kOwn);
    folder.begin();
    if (std::string(line) == "second") {
      EXPECT_EQ(read(out() + "/history.jsonl"), "first\n");
    }
    folder.add_history(line);
    folder.write_file("config.toml", "seed = 1\n");
  }
  EXPECT_EQ(read(out() + "/history.jsonl"), "second\n");
}

TEST_F(RunFolderTest, WhatASupervisorMakesIsNoRun) {
  fs::create_directories(out() + "/logs/output/1");
  std::ofstream(out() + "/supervisor.lock") << "\n";
  std::ofstream(out() + "/.shared-1") << "\n";
  EXPECT_NO_THROW(RunFolder::check(out(), kNothing));
  std::ofstream(out() + "/logs/rank_0.log") << "\n";
  EXPECT_THROW(RunFolder::check(out(), kNothing), ConfigError);
}

TEST_F(RunFolderTest, LogsOfAnEarlierRunGoAndThoseOfOthersStay) {
  {
    RunFolder earlier(out(), kNothing);
    earlier.begin();
    earlier.add_history("{}");
  }
  const fs::path logs = fs::path(out()) / "logs";
  for (const char* name : {"rank_0.log", "rank_3.log", "node1.log", "node1-8.log"})
    std::ofstream(logs / name) << "{\"rank\":0,\"time\":1}\n";
  std::ofstream(logs / "slurm.log") << "srun: hello\n";
  std::ofstream(logs / "rank_1.log.old") << "mine\n";
  RunFolder folder(out(), kAnything);
  folder.begin();
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(logs))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, testing::UnorderedElementsAre("slurm.log", "rank_1.log.old"));
}

TEST(HostLogName, IsAFileOfItsOwn) {
  EXPECT_EQ(host_log_name("node1.cluster-a"), "node1.cluster-a");
  EXPECT_EQ(host_log_name("a/b c\n"), "a_b_c_");
  EXPECT_EQ(host_log_name("rank_0"), "host-rank_0");
  EXPECT_EQ(host_log_name("."), "host-.");
  EXPECT_EQ(host_log_name(""), "host-");
  EXPECT_LT(host_log_name(std::string(1000, 'x')).size(), 240u);
}

TEST(HostLogName, MachinesOfOneNameHaveTheirLowestRank) {
  // Machines 7 and 9 say the same name; on 8 are two containers, of other names.
  const std::vector<RankMachine> ranks = {{1, 7}, {1, 7}, {2, 8}, {3, 8}, {1, 9}, {1, 9}, {1, 7}};
  std::vector<std::string> suffixes;
  for (int rank = 0; rank < int(ranks.size()); ++rank)
    suffixes.push_back(host_log_suffix(ranks, rank));
  EXPECT_THAT(suffixes, ElementsAre("-0", "-0", "", "", "-4", "-4", "-0"));
}

TEST_F(RunFolderTest, AnEmptyFolderMayBeUsed) {
  fs::create_directories(out());
  EXPECT_NO_THROW(RunFolder(out(), kNothing));
}

TEST_F(RunFolderTest, PlacesThatCannotBeAFolder) {
  std::ofstream(root_ / "file") << "x";
  EXPECT_THROW(RunFolder((root_ / "file").string(), kAnything), ConfigError);
  EXPECT_THROW(RunFolder((root_ / "file/run").string(), kNothing), EnvironmentError);
}

// A limit on the size of files stands for a disk that is full for a while.
TEST_F(RunFolderTest, AFullDiskIsReportedAndNothingThrown) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  RunFolder folder(out(), kAnything);
  folder.begin();
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit none{0, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  folder.on_step({});
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  folder.on_end({});
  EXPECT_THAT(folder.finish(),
              ElementsAre(AllOf(HasSubstr("metrics.jsonl"), HasSubstr("File too large"))));
  EXPECT_TRUE(fs::exists(out() + "/summary.json"));
}

// Cut off, the new run would have the weights of the one before.
TEST_F(RunFolderTest, AnEarlierResultThatCannotBeRemovedIsAnError) {
  fs::create_directories(out() + "/model.safetensors/theirs");
  RunFolder folder(out(), kAnything);
  EXPECT_THROW(folder.begin(), EnvironmentError);
  EXPECT_TRUE(fs::exists(out() + "/model.safetensors/theirs"));
}

// No later start would take the folder for one of a run, and resume from its checkpoints.
TEST_F(RunFolderTest, AStartWithoutItsMarkIsRefused) {
  fs::create_directories(out() + "/history.jsonl");
  RunFolder folder(out(), kAnything);
  folder.begin();
  EXPECT_THROW(folder.add_history("{}"), EnvironmentError);
}

TEST_F(RunFolderTest, MetricsThatCannotBeReadAreKept) {
  const fs::path metrics = fs::path(out()) / "metrics.jsonl";
  fs::create_directories(metrics);  // opens, but cannot be read
  RunFolder folder(out(), kAnything);
  const ResumeRecord resumed;
  try {
    folder.begin(&resumed);
    ADD_FAILURE() << "accepted";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("metrics.jsonl"), HasSubstr("cannot be read")));
    EXPECT_NE(error.hint(), "");
  }
}

// A lookup that fails must not begin anew over results.
TEST_F(RunFolderTest, ResultsThatCannotBeLookedUpAreKept) {
  fs::create_directories(out());
  std::ofstream(out() + "/history.jsonl") << "{}\n";
  fs::create_symlink("model.safetensors", out() + "/model.safetensors");
  EXPECT_THROW(RunFolder::check(out(), RunFolder::Existing::own_run), ConfigError);
}

TEST_F(RunFolderTest, WritesThroughNoLink) {
  const fs::path precious = root_ / "precious";
  for (const char* name : {"metrics.jsonl", "history.jsonl", "config.toml.tmp", "lock"}) {
    fs::remove_all(out());
    fs::create_directories(out());
    std::ofstream(precious) << "theirs";
    fs::create_symlink(precious, out() + "/" + name);
    try {
      RunFolder folder(out(), kAnything);
      folder.begin();
      folder.add_history("{}");
      folder.write_file("config.toml", "x");
      EXPECT_FALSE(folder.finish().empty()) << name;
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(), HasSubstr(name));
    }
    std::string text;
    std::getline(std::ifstream(precious), text);
    EXPECT_EQ(text, "theirs") << name;
  }
}

TEST_F(RunFolderTest, AFolderOfAnotherUserThatAllCanWriteToIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directories(out());
  ASSERT_EQ(chown(out().c_str(), 12345, 12345), 0);
  EXPECT_NO_THROW(RunFolder(out(), kNothing)) << "only its owner can write to it";
  fs::permissions(out(), fs::perms::all);
  EXPECT_THROW(RunFolder(out(), kNothing), ConfigError);
  EXPECT_NO_THROW(RunFolder(out(), kAnything)) << "the user insists";
}

TEST_F(RunFolderTest, ARefusedStartLeavesThingsAsTheyWere) {
  const fs::path nested = root_ / "a/b/run";
  { const RunFolder refused(nested.string(), kNothing); }
  EXPECT_FALSE(fs::exists(root_ / "a"));
  fs::create_directories(out());
  { const RunFolder refused(out(), kNothing); }
  EXPECT_TRUE(fs::is_empty(out()));
  { RunFolder(nested.string() + "/", kNothing).begin(); }
  EXPECT_TRUE(fs::exists(nested / "metrics.jsonl"));
  std::ofstream(root_ / "a/file") << "x";
  EXPECT_THROW(RunFolder((root_ / "c/../a/file/x").string(), kNothing), EnvironmentError);
  EXPECT_FALSE(fs::exists(root_ / "c"));
}

TEST_F(RunFolderTest, AFailedRunKeepsItsFolder) {
  {
    RunFolder folder(out(), kNothing);
    folder.begin();
  }
  EXPECT_TRUE(fs::exists(out() + "/metrics.jsonl"));
}

TEST_F(RunFolderTest, RunsOfTheSameSecondHaveTheirOwnFolders) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  {
    const RunFolder a("", kNothing), b("", kNothing), c("", kNothing);
    EXPECT_NE(a.path(), b.path());
    EXPECT_NE(b.path(), c.path());
    EXPECT_NE(a.path(), c.path());
  }
  fs::current_path(before);
}

TEST_F(RunFolderTest, AFolderThatCannotBeReadIsAnError) {
  const std::string too_long = (root_ / std::string(300, 'x')).string();
  EXPECT_THROW(RunFolder::check(too_long, kNothing), EnvironmentError);
  EXPECT_THROW(RunFolder::check(too_long, kAnything), EnvironmentError);
}

TEST(JsonObject, EscapesAndReplaces) {
  EXPECT_EQ(json_object({{"a", std::string("x\"\n")}, {"b", true}, {"c", HUGE_VAL}}),
            "{\"a\":\"x\\\"\\n\",\"b\":true,\"c\":null}");
  EXPECT_THAT(json_object({{"a", std::string("\xff")}}), HasSubstr("\xEF\xBF\xBD"));
  EXPECT_EQ(json_object({{"a", JsonText{"[1,{}]"}}, {"b", JsonText{}}}), "{\"a\":[1,{}]}");
}

}  // namespace
}  // namespace lockstep
