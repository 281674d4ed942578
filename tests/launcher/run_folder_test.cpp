// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_folder.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>

#include "core/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST_F(RunFolderTest, WritesStepsEvaluationsAndSummary) {
  RunFolder folder(out(), false);
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

TEST_F(RunFolderTest, KeepsAnEarlierRun) {
  RunFolder(out(), false).write_file("summary.json", "{}");
  EXPECT_THROW(RunFolder(out(), false), ConfigError);
  EXPECT_THROW(RunFolder::check(out(), false), ConfigError);
  EXPECT_TRUE(fs::exists(out() + "/summary.json"));
  EXPECT_NO_THROW(RunFolder(out(), true));
  EXPECT_FALSE(fs::exists(out() + "/summary.json")) << "results of the earlier run remain";
}

TEST_F(RunFolderTest, AnEmptyFolderMayBeUsed) {
  fs::create_directories(out());
  EXPECT_NO_THROW(RunFolder(out(), false));
}

TEST_F(RunFolderTest, PlacesThatCannotBeAFolder) {
  std::ofstream(root_ / "file") << "x";
  EXPECT_THROW(RunFolder((root_ / "file").string(), true), ConfigError);
  EXPECT_THROW(RunFolder((root_ / "file/run").string(), false), EnvironmentError);
}

TEST_F(RunFolderTest, AFullDiskIsReportedAndNothingThrown) {
  fs::create_directories(out());
  fs::create_symlink("/dev/full", out() + "/metrics.jsonl");
  RunFolder folder(out(), true);
  folder.on_step({});
  folder.on_end({});
  EXPECT_THAT(folder.finish(),
              ElementsAre(AllOf(HasSubstr("metrics.jsonl"), HasSubstr("No space left on device"))));
  EXPECT_TRUE(fs::exists(out() + "/summary.json"));
}

TEST_F(RunFolderTest, ARefusedStartLeavesNoFolder) {
  RunFolder unused(out(), false);
  unused.write_file("config.toml", "lr = 1\n");
  unused.discard_unused();
  EXPECT_FALSE(fs::exists(out()));
  RunFolder used(out(), false);
  used.on_step({});
  used.discard_unused();
  EXPECT_TRUE(fs::exists(out()));
}

TEST(JsonObject, EscapesAndReplaces) {
  EXPECT_EQ(json_object({{"a", std::string("x\"\n")}, {"b", true}, {"c", HUGE_VAL}}),
            "{\"a\":\"x\\\"\\n\",\"b\":true,\"c\":null}");
  EXPECT_THAT(json_object({{"a", std::string("\xff")}}), HasSubstr("\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace lockstep
