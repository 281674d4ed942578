// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "launcher/report/page.h"
#include "launcher/report/run_record.h"
#include "launcher/report/sections.h"
#include "tests/launcher/report_document.h"
#include "tests/launcher/report_folder.h"

namespace lockstep::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReportComparison : public ReportFolderTest {
 protected:
  /// A run of `steps` steps in two epochs.
  RunRecord two_epochs(const std::string& name, int steps) const {
    std::string metrics;
    for (int i = 1; i <= steps; ++i)
      metrics +=
          fmt::format("{{\"step\":{},\"epoch\":{},\"loss\":{}}}\n", i, 2.0 * i / steps, 1.0 / i);
    metrics += fmt::format("{{\"step\":{},\"val_loss\":0.5,\"seconds\":1}}\n", steps);
    write("metrics.jsonl", metrics);
    write("config.toml", fmt::format("global-batch = {}\n", 64'000'000 / steps));
    RunRecord record = read_run(run());
    record.name = name;
    return record;
  }
};

TEST_F(ReportComparison, SeveralRunsAreOnOneChart) {
  write("metrics.jsonl", step(1) + step(2));
  RunRecord first = read_run(run());
  write("metrics.jsonl", step(1, "0.25"));
  RunRecord second = read_run(run());
  second.name = "<two>";
  const Json json = document_of(std::vector<RunRecord>{first, second});
  EXPECT_EQ(json["title"], "Comparison of 2 runs");
  EXPECT_EQ(json["runs"][1]["label"], "<two>");
  const Json loss = chart_of(json, "loss");
  ASSERT_EQ(loss["series"].size(), 2u);
  EXPECT_EQ(loss["series"][0]["name"], "run");
  EXPECT_EQ(loss["series"][1]["name"], "<two>");
  EXPECT_EQ(loss["series"][1]["y"], Json::array({0.25}));
  EXPECT_NE(loss["series"][0]["style"], loss["series"][1]["style"]);
}

TEST_F(ReportComparison, SettingsThatDiffer) {
  write("metrics.jsonl", step(1));
  write("config.toml", "lr = 0.125\nmodel = 'mlp'\nout = 'a'\n");
  RunRecord first = read_run(run());
  write("config.toml", "lr = 0.375\nmodel = 'mlp'\nout = 'b'\nmomentum = 0.9\n");
  RunRecord second = read_run(run());
  first.name = "one";
  second.name = "two";
  const Json json = document_of(std::vector<RunRecord>{first, second});
  const Json table = table_of(json, "Settings and machines that differ");
  EXPECT_EQ(table["header"], Json::array({"setting", "one", "two"}));
  EXPECT_THAT(
      table["rows"],
      ElementsAre(Json::array({"lr", "0.125", "0.375"}), Json::array({"momentum", "-", "0.9"})));
}

TEST_F(ReportComparison, RunsOfDifferentGlobalBatchesLearnOverEpochs) {
  const RunRecord small = two_epochs("small", 8), large = two_epochs("large", 2);
  const Json json = document_of(std::vector<RunRecord>{small, large});
  for (const char* id : {"loss", "val-loss"}) {
    const Json chart = chart_of(json, id);
    EXPECT_EQ(chart["x_label"], "epoch");
    ASSERT_EQ(chart["series"].size(), 2u);
    for (const Json& series : chart["series"]) EXPECT_EQ(series["x"].back(), 2) << id;
    EXPECT_EQ(chart["table"]["header"], Json::array({"epoch", "small", "large"}));
  }
  EXPECT_EQ(chart_of(json, "loss")["series"][1]["x"], Json::array({1, 2}));
  const Json same = document_of(std::vector<RunRecord>{small, small});
  EXPECT_EQ(chart_of(same, "loss")["x_label"], "step");
}

TEST_F(ReportComparison, LongRunsOverEpochsAreSmallPages) {
  std::vector<RunRecord> runs;
  for (std::size_t i = 0; i < kMaxRuns; ++i)
    runs.push_back(two_epochs(fmt::format("run {}", i), 6'000 + int(i)));
  EXPECT_LT(page_of(runs).size(), 2'000'000u);
  const Json chart = chart_of(document_of(runs), "loss");
  EXPECT_EQ(chart["x_label"], "epoch");
  const Json& table = chart["table"];
  EXPECT_EQ(table["header"].size(), kMaxRuns + 1);
  EXPECT_EQ(table["rows"].size(), kMaxTableRows);
  EXPECT_EQ(table["rows"].back()[0], "2");
  for (const Json& row : table["rows"])
    for (const Json& cell : row) EXPECT_NE(cell, "");
}

TEST_F(ReportComparison, ABatchThatChangedInARunIsCountedFromThere) {
  write("metrics.jsonl",
        "{\"step\":1,\"epoch\":0.5,\"loss\":1}\n{\"step\":2,\"epoch\":1,\"loss\":1}\n"
        "{\"step\":3,\"epoch\":1.1,\"loss\":1}\n{\"step\":4,\"epoch\":1.2,\"loss\":1}\n");
  write("config.toml", "global-batch = 7\n");
  RunRecord changed = read_run(run());
  changed.name = "changed";
  const RunRecord other = two_epochs("other", 2);
  const Json chart = chart_of(document_of(std::vector<RunRecord>{changed, other}), "loss");
  EXPECT_EQ(chart["series"][0]["x"], Json::array({0.5, 1, 1.1, 1.2}));
}

TEST_F(ReportComparison, RunsOnMoreDataWithTheSameBatchLearnOverSteps) {
  RunRecord half = two_epochs("half", 8), whole = two_epochs("whole", 4);
  for (RunRecord* run : {&half, &whole}) run->config = {{"global-batch", "64"}};
  const Json json = document_of(std::vector<RunRecord>{half, whole});
  EXPECT_EQ(chart_of(json, "loss")["x_label"], "step");
}

TEST_F(ReportComparison, RunsWithoutAdviceAreNamedInOneLine) {
  write("metrics.jsonl", step(1));
  write("summary.json", R"({"advice":[]})");
  RunRecord first = read_run(run()), second = first;
  second.name = "other";
  const std::string json = document_of(std::vector<RunRecord>{first, second}).dump();
  EXPECT_THAT(json, HasSubstr("run, other: nothing stands out"));
}

}  // namespace
}  // namespace lockstep::report
