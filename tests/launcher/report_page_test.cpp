// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "launcher/report/page.h"
#include "launcher/report/page_files.h"
#include "launcher/report/run_record.h"
#include "launcher/report/sections.h"
#include "tests/launcher/report_document.h"
#include "tests/launcher/report_folder.h"

namespace lockstep::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The text of the element with the page's data.
std::string data_of(const std::string& page) {
  const std::string begin = "<script id=\"data\" type=\"application/json\">";
  const std::size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find("</script>", from) - from);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++count;
  return count;
}

class ReportPage : public ReportFolderTest {
 protected:
  Json document() const {
    const std::vector<RunRecord> runs{read_run(run())};
    return document_of(runs);
  }
  std::string page() const {
    const std::vector<RunRecord> runs{read_run(run())};
    return page_of(runs);
  }
  /// All that a run of this version may hold.
  void write_everything() const {
    std::string metrics;
    for (int i = 1; i <= 3000; ++i)
      metrics += fmt::format(
          R"({{"step":{},"loss":{},"accuracy":0.5,"lr":0.1,"grad_norm":1.5,"samples_per_s":900,"step_ms":10,)"
          R"("data_ms":1,"copy_ms":1,"forward_ms":2,"backward_ms":3,"comm_exposed_ms":1,"optimizer_ms":1,)"
          R"("device_wait_ms":0.25,"logging_ms":0.25,"checkpoint_ms":0.25,"other_ms":0.25,)"
          R"("loader_samples_per_s":5000,"gpu_busy":0.97,"gpu_memory_bytes":1000000,"gpu_power_w":600,)"
          R"("noise_scale":1234}})"
          "\n",
          i,
          i == 1777 ? 55.5 : 2 / std::sqrt(i));
    metrics += R"({"step":3000,"val_loss":0.25,"val_accuracy":0.875,"seconds":1})"
               "\n";
    write("metrics.jsonl", metrics);
    write(
        "summary.json",
        R"({"steps":3000,"slowest_rank":1,"slowest_rank_score":1.2,"slowest_rank_phase":"loading","global_batch":64,
              "ledger":[{"rank":0,"host":"a","seconds":2,"forward":2},{"rank":1,"host":"b","seconds":3,"forward":3}],
              "advice":[{"cause":"data_wait","text":"waited 41%","evidence":"310/s","remedy":"--workers 8","gain":0.41}],
              "memory":{"parameters":1048576,"activations":3145728},"noise_scale_words":"about 1,234 samples",
              "gpus":[{"rank":0,"device":"GPU X","busy":{"mean":0.97}}]})");
    write("memory.json", R"({"live_bytes":[1,5,2],"nodes":["a","the_largest","c"]})");
  }
};

TEST_F(ReportPage, SaysEverythingThatARunHolds) {
  write_everything();
  const std::string text = document().dump();
  for (const char* words : {"ended after 3,000 steps",
                            "waited 41%",
                            "310/s",
                            "--workers 8",
                            "Could save 41%",
                            "Loss",
                            "Accuracy",
                            "Throughput",
                            "Where the time goes",
                            "copies to the device",
                            "rank 1 on b",
                            "1.20 times",
                            "loading",
                            "Gradient noise scale",
                            "about 1,234 samples",
                            "global batch: 64",
                            "Gradient norm",
                            "Learning rate",
                            "3.00 MiB, 75%",
                            "the_largest",
                            "GPU X",
                            "87.5%",
                            "Power"})
    EXPECT_THAT(text, HasSubstr(words)) << words;
}

TEST_F(ReportPage, ClassesOneByOneAndTheirConfusions) {
  write("metrics.jsonl", step(1));
  const std::string classes =
      R"({"steps":1,"evaluation":{"per_class":[)"
      R"({"class":"ant","samples":1200,"recall":0.75,"precision":null,"f1":0.5},)"
      R"({"class":"bee","samples":1,"recall":1,"precision":0.25,"f1":0.4}],"confusion_matrix":)";
  write("summary.json", classes + "[[900,300],[0,1]]}}");
  const Json table = table_of(document(), "Classes of the validation part");
  EXPECT_EQ(table["rows"][0].dump(), R"(["ant","1,200","75%","-","50%"])");
  const char* const caption = "Samples of a class (row) by predicted class (column)";
  const Json matrix = table_of(document(), caption);
  EXPECT_EQ(matrix["header"].dump(), R"(["class","ant","bee"])");
  EXPECT_EQ(matrix["rows"].dump(), R"([["ant","900","300"],["bee","","1"]])");
  for (const char* damaged : {"[[900,300]]", "[[900],[0]]", "[1,2]", "7"}) {
    write("summary.json", classes + damaged + "}}");
    EXPECT_TRUE(table_of(document(), caption).is_null()) << damaged;
    EXPECT_FALSE(table_of(document(), "Classes of the validation part").is_null()) << damaged;
  }
}

TEST_F(ReportPage, LinesHaveTheValuesAndUnitsOfTheRun) {
  write("history.jsonl", "{\"step\":0}\n{\"step\":2,\"checkpoint\":\"c/2\"}\n");
  write("metrics.jsonl",
        R"({"step":1,"loss":0.75,"accuracy":0.25,"step_ms":4})"
        "\n"
        R"({"step":2,"loss":null,"accuracy":0.5,"step_ms":4})"
        "\n"
        R"({"step":3,"loss":0.12345678,"accuracy":0.75,"step_ms":400})"
        "\n"
        R"({"step":3,"val_loss":0.5,"val_accuracy":1,"seconds":1})"
        "\n");
  const Json json = document();
  const Json loss = chart_of(json, "loss");
  EXPECT_EQ(loss["unit"], "plain");
  EXPECT_EQ(loss["x_label"], "step");
  EXPECT_EQ(loss["marks"], Json::array({2}));
  ASSERT_EQ(loss["series"].size(), 2u);
  EXPECT_EQ(loss["series"][0]["name"], "training");
  EXPECT_EQ(loss["series"][0]["x"], Json::array({1, 3, 3})) << "a gap where the loss is none";
  EXPECT_EQ(loss["series"][0]["y"], Json::array({0.75, nullptr, 0.123457}));
  EXPECT_EQ(loss["series"][1]["name"], "validation");
  EXPECT_EQ(loss["series"][1]["y"], Json::array({0.5}));
  EXPECT_EQ(chart_of(json, "accuracy")["unit"], "percent");
  EXPECT_TRUE(chart_of(json, "step-time")["logarithmic"]);
  EXPECT_FALSE(loss["logarithmic"]);
}

TEST_F(ReportPage, PartsOfAWholeHaveTheValuesOfTheRun) {
  write_everything();
  const Json json = document();
  const Json time = chart_of(json, "ledger-0");
  EXPECT_EQ(time["type"], "area");
  double sum = 0;
  for (const Json& layer : time["series"]) {
    EXPECT_EQ(layer["y"].size(), time["x"].size());
    sum += layer["y"][0].get<double>();
  }
  EXPECT_DOUBLE_EQ(sum, 10) << "the parts are the whole step";
  const Json memory = chart_of(json, "memory-0");
  EXPECT_EQ(memory["unit"], "bytes");
  EXPECT_EQ(memory["labels"], Json::array({"activations", "parameters"})) << "the largest first";
  EXPECT_EQ(memory["series"][0]["y"], Json::array({3145728, 1048576}));
  const Json balance = chart_of(json, "balance-0");
  EXPECT_EQ(balance["series"][0]["name"], "forward");
  EXPECT_EQ(balance["series"][0]["y"], Json::array({2, 3}));
  EXPECT_EQ(chart_of(json, "step-memory-0")["series"][0]["y"], Json::array({1, 5, 2}));
  EXPECT_EQ(chart_of(json, "noise")["levels"][0]["value"], 64);
}

TEST_F(ReportPage, NeedsNoNetworkAndCarriesItsMark) {
  write_everything();
  std::string html = page();
  EXPECT_LT(html.find(kPageMark), 1024u);
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  if (!kChartLibrary.empty()) {
    EXPECT_THAT(html, AllOf(HasSubstr("Chart.js Contributors"), HasSubstr("MIT License")));
  }
  if (!kChartLibrary.empty()) html.erase(html.find(kChartLibrary), kChartLibrary.size());
  // The name of SVG's elements, from which nothing is loaded.
  const std::string name_space = "\"http://www.w3.org/2000/svg\"";
  ASSERT_EQ(count_of(html, name_space), 1u);
  html.erase(html.find(name_space), name_space.size());
  for (const char* words : {"src=",
                            "@import",
                            "url(",
                            "<link",
                            "<iframe",
                            "<img",
                            "fetch(",
                            "href=\"h",
                            "http:",
                            "https:"})
    EXPECT_THAT(html, Not(HasSubstr(words)));
  for (const char* words :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
    EXPECT_THAT(html, Not(HasSubstr(words)));
}

TEST_F(ReportPage, EveryChartHasATitleADescriptionAndATable) {
  write_everything();
  const std::vector<Json> charts = charts_of(document());
  EXPECT_GE(charts.size(), 15u);
  std::set<std::string> ids;
  for (const Json& chart : charts) {
    EXPECT_TRUE(ids.insert(chart["id"]).second) << chart["id"] << " is there twice";
    EXPECT_NE(chart["title"], "");
    EXPECT_NE(chart["description"], "");
    const Json& table = chart["table"];
    EXPECT_NE(table["caption"], "");
    EXPECT_GE(table["rows"].size(), 1u);
    EXPECT_LE(table["rows"].size(), kMaxTableRows + 1);
    for (const Json& row : table["rows"]) EXPECT_EQ(row.size(), table["header"].size());
  }
}

TEST_F(ReportPage, WhatFilesSayIsTextAndNotHtml) {
  const std::string evil = "</script><script>alert(1)</script><!--";
  write("config.toml", "model = '" + evil + "'\n" + "data = \"\\\" onload=\\\"x\"\n");
  write("environment.json", "{\"host\":\"" + evil + "\",\"" + evil + "\":\"</style>\"}");
  write("history.jsonl",
        "{\"step\":5,\"host\":\"" + evil + "\",\"command\":\"" + evil + "\",\"time\":1}\n");
  write("metrics.jsonl",
        step(1) + "{\"step\":1,\"checkpoint\":\"" + evil + "\",\"error\":\"" + evil +
            "\"}\n{\"step\":2,\"skipped_step\":\"" + evil + "\"}\n{\"step\":2,\"rollback\":\"" +
            evil + "\"}\n");
  write("summary.json",
        "{\"slowest_rank\":0,\"slowest_rank_score\":2,\"slowest_rank_phase\":\"" + evil +
            "\",\"noise_scale_words\":\"" + evil + "\",\"ledger\":[{\"rank\":0,\"host\":\"" + evil +
            "\",\"data\":1},{\"rank\":1,\"host\":\"" + evil +
            "\",\"data\":1}],\"advice\":[{\"cause\":\"" + evil + "\",\"text\":\"" + evil +
            "\",\"evidence\":\"" + evil + "\",\"remedy\":\"" + evil + "\"}],\"memory\":{\"" + evil +
            "\":5},\"device\":\"" + evil + "\",\"gpus\":[{\"" + evil + "\":\"" + evil + "\"}]}");
  write("memory.json", "{\"live_bytes\":[1,2],\"nodes\":[\"" + evil + "\",\"" + evil + "\"]}");
  const std::filesystem::path folder = root_ / "<script>run{{page}}";
  std::filesystem::rename(root_ / "run", folder);
  std::vector<RunRecord> runs{read_run(folder.string())};
  for (int several = 0; several < 2; ++several) {
    std::string html = page_of(runs);
    EXPECT_EQ(count_of(html, "</script>"), 3u) << "data, library and the page's own";
    EXPECT_EQ(count_of(html, "</style>"), 1u);
    const std::string data = data_of(html);
    EXPECT_THAT(data, Not(HasSubstr("<")));
    EXPECT_GT(count_of(data, "\\u003c/script>"), 10u);
    EXPECT_GT(count_of(data, "{{page}}"), 0u) << "data is not searched for names of parts";
    EXPECT_EQ(Json::parse(data), document_of(runs)) << "texts come as they are";
    runs.push_back(runs[0]);
  }
}

TEST_F(ReportPage, AHundredThousandStepsAreLessThanTwoMegabytes) {
  std::string metrics;
  for (int i = 1; i <= 100'000; ++i)
    metrics += fmt::format(
        R"({{"step":{},"loss":{},"accuracy":{},"lr":{},"grad_norm":{},"samples_per_s":{},"step_ms":{},"data_ms":{},)"
        R"("forward_ms":{},"backward_ms":4,"gpu_busy":{},"noise_scale":{}}})"
        "\n",
        i,
        i == 54'321 ? 77.75 : 2 + std::sin(i),
        0.5 + 0.5 * std::sin(i * 3),
        1.0 / i,
        2 + std::cos(i),
        900 + 99 * std::sin(i),
        9 + std::sin(i * 7),
        1 + std::sin(i),
        2 + std::cos(i),
        0.5 + 0.5 * std::cos(i),
        1000 + 500 * std::sin(i));
  write("metrics.jsonl", metrics);
  const RunRecord record = read_run(run());
  std::vector<RunRecord> runs{record};
  EXPECT_LT(page_of(runs).size(), 1'000'000u);
  const Json json = document_of(runs);
  const Json loss = chart_of(json, "loss");
  EXPECT_THAT(loss["description"].get<std::string>(), HasSubstr("between 1 and 77.75"));
  const Json& band = loss["series"][0];
  EXPECT_EQ(band["draw"], "band");
  const auto spike = std::ranges::find(band["y"], Json(77.75));
  ASSERT_NE(spike, band["y"].end()) << "no spike is lost";
  EXPECT_EQ(band["x"][std::size_t(spike - band["y"].begin())], 54'321);
  for (const Json& chart : charts_of(json))
    for (const Json& series : chart["series"]) {
      EXPECT_LE(series["y"].size(), 3000u) << chart["id"];
      EXPECT_TRUE(!series.contains("x") || series["x"].size() == series["y"].size());
    }
  while (runs.size() < kMaxRuns) runs.push_back(record);
  EXPECT_LT(page_of(runs).size(), 2'000'000u);
  EXPECT_THAT(document_of(runs).dump(), HasSubstr("run (16)"));
}

TEST_F(ReportPage, ARunWithNothingInIt) {
  write("config.toml", "");
  EXPECT_THAT(document().dump(),
              AllOf(HasSubstr("still running or cut off"), HasSubstr("no metrics.jsonl")));
  EXPECT_THAT(page(), HasSubstr("</html>"));
  EXPECT_TRUE(charts_of(document()).empty());
  write("metrics.jsonl", step(1));
  EXPECT_THAT(document().dump(), HasSubstr("1 step so far"));
  EXPECT_EQ(chart_of(document(), "loss")["series"][0]["y"], Json::array({0.5}));
}

TEST_F(ReportPage, TensOfThousandsOfSettingsAreFewOnThePage) {
  constexpr int kSettings = 40'000;  // time that grows with their square would be minutes
  write("metrics.jsonl", step(1));
  std::vector<RunRecord> runs;
  for (int i = 0; i < 2; ++i) {
    std::string config, facts = "{\"a\":1";
    for (int k = 0; k < kSettings; ++k) {
      config += fmt::format("k{} = {}\n", k, i);
      facts += fmt::format(",\"k{}\":{}", k, i);
    }
    write("config.toml", config);
    write("environment.json", facts + "}");
    write("summary.json", facts + ",\"gpus\":[" + facts + "}]}");
    runs.push_back(read_run(run()));
    EXPECT_EQ(runs[0].config.size(), 1000u);
    EXPECT_EQ(runs[0].summary->gpus.at(0).size(), 100u);
    EXPECT_THAT(
        runs[0].notes,
        ::testing::ElementsAre(HasSubstr("39000 of the settings in config.toml are not shown"),
                               HasSubstr("39001 of the settings in environment.json are not shown"),
                               HasSubstr("39001 of the settings in summary.json are not shown")));
  }
  const Json json = document_of(runs);
  EXPECT_THAT(json.dump(), HasSubstr("and 700 more"));
  for_each_part(json, [](const Json& part) {
    if (!part.contains("rows")) return;
    EXPECT_LE(part["rows"].size(), 700u) << part["caption"];
  });
}

TEST_F(ReportPage, ATextOfAMegabyteIsShownByItsBeginning) {
  write("metrics.jsonl", step(1));
  write("config.toml", "model = '" + std::string(1'000'000, 'x') + "'\n");
  EXPECT_LT(data_of(page()).size(), 200'000u);
  EXPECT_THAT(data_of(page()), HasSubstr("(998000 bytes more)\""));
  write("config.toml", "model = '" + std::string(1'100'000, 'x') + "'\n");
  EXPECT_THAT(document().dump(), HasSubstr("config.toml is skipped"));
}

}  // namespace
}  // namespace lockstep::report
