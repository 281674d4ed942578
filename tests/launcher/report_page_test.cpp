// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include "core/base/error.h"
#include "launcher/report/csv.h"
#include "launcher/report/output.h"
#include "launcher/report/page.h"
#include "launcher/report/run_record.h"
#include "tests/launcher/report_folder.h"

namespace lockstep::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ReportPage : public ReportFolderTest {
 protected:
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

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++count;
  return count;
}

TEST_F(ReportPage, SaysEverythingThatARunHolds) {
  write_everything();
  const std::string html = page();
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
    EXPECT_THAT(html, HasSubstr(words)) << words;
}

TEST_F(ReportPage, NeedsNoNetworkAndCarriesItsMark) {
  write_everything();
  const std::string html = page();
  EXPECT_LT(html.find(kPageMark), 1024u);
  for (const char* words :
       {"src=", "@import", "url(h", "url('", "<link", "<iframe", "<img", "fetch(", "href=\"h"})
    EXPECT_THAT(html, Not(HasSubstr(words)));
  EXPECT_EQ(count_of(html, "http"), count_of(html, "http://www.w3.org/2000/svg"))
      << "a name, not an address";
}

TEST_F(ReportPage, EveryChartHasATitleADescriptionAndATable) {
  write_everything();
  const std::string html = page();
  const std::size_t charts = count_of(html, "role=\"img\"");
  EXPECT_GE(charts, 15u);
  EXPECT_EQ(count_of(html, "<title id="), charts);
  EXPECT_EQ(count_of(html, "<desc id="), charts);
  EXPECT_EQ(count_of(html, "<figure>"), charts);
  EXPECT_EQ(count_of(html, "<summary>Data: "), charts);
  EXPECT_EQ(count_of(html, "<table"), count_of(html, "<caption>"));
  std::set<std::string> ids;
  const std::regex pattern(" id=\"([^\"]*)\"");
  for (std::sregex_iterator i(html.begin(), html.end(), pattern), end; i != end; ++i)
    EXPECT_TRUE(ids.insert((*i)[1]).second) << (*i)[1] << " is there twice";
  for (const std::string& id : ids) {
    const std::string stem = id.substr(0, id.size() - 1);
    EXPECT_TRUE(!id.ends_with("-t") || ids.contains(stem + "d")) << id;
  }
}

TEST_F(ReportPage, TablesAreShort) {
  write_everything();
  const std::string html = page();
  std::size_t from = 0;
  while ((from = html.find("Data: ", from)) != std::string::npos) {
    const std::size_t end = html.find("</table>", from);
    EXPECT_LE(count_of(html.substr(from, end - from), "<tr>"), 51u);
    from = end;
  }
}

TEST_F(ReportPage, WhatFilesSayIsTextAndNotHtml) {
  const std::string evil = "<script>alert(1)</script>";
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
  const std::filesystem::path folder = root_ / "<script>run";
  std::filesystem::rename(root_ / "run", folder);
  std::vector<RunRecord> runs{read_run(folder.string())};
  for (int several = 0; several < 2; ++several) {
    const std::string html = page_of(runs);
    EXPECT_EQ(count_of(html, "<script>"), 1u) << "the page's own";
    EXPECT_EQ(count_of(html, "</style>"), 1u);
    EXPECT_EQ(count_of(html, " onload=\"x"), 0u);
    EXPECT_GT(count_of(html, "&lt;script&gt;"), 10u);
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
  EXPECT_LT(page_of(runs).size(), 700'000u);
  EXPECT_THAT(page_of(runs), HasSubstr("between 1 and 77.75"));
  while (runs.size() < kMaxRuns) runs.push_back(record);
  const std::string html = page_of(runs);
  EXPECT_LT(html.size(), 2'000'000u);
  EXPECT_THAT(html, HasSubstr("run (16)"));
}

TEST_F(ReportPage, ARunWithNothingInIt) {
  write("config.toml", "");
  EXPECT_THAT(page(),
              AllOf(HasSubstr("still running or cut off"),
                    HasSubstr("no metrics.jsonl"),
                    HasSubstr("</html>")));
  write("metrics.jsonl", step(1));
  EXPECT_THAT(page(), AllOf(HasSubstr("1 step so far"), HasSubstr("polyline")));
}

TEST_F(ReportPage, SettingsThatDiffer) {
  write("metrics.jsonl", step(1));
  write("config.toml", "lr = 0.125\nmodel = 'mlp'\nout = 'a'\n");
  RunRecord first = read_run(run());
  write("config.toml", "lr = 0.375\nmodel = 'mlp'\nout = 'b'\nmomentum = 0.9\n");
  RunRecord second = read_run(run());
  first.name = "one";
  second.name = "two";
  const std::vector<RunRecord> runs{first, second};
  const std::string html = page_of(runs);
  const std::size_t from = html.find("Settings and machines that differ</caption>");
  const std::string table = html.substr(from, html.find("</table>", from) - from);
  EXPECT_THAT(table,
              AllOf(HasSubstr("<td>0.125</td><td>0.375</td>"),
                    HasSubstr("<th scope=\"row\">momentum</th><td>-</td><td>0.9</td>"),
                    Not(HasSubstr("mlp")),
                    Not(HasSubstr(">out<"))));
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
  const std::string html = page_of(runs);
  EXPECT_THAT(html, HasSubstr("and 700 more"));
  EXPECT_LT(count_of(html, "<tr>"), 4000u);
}

TEST_F(ReportPage, ATextOfAMegabyteIsShownByItsBeginning) {
  write("metrics.jsonl", step(1));
  write("config.toml", "model = '" + std::string(1'000'000, 'x') + "'\n");
  EXPECT_LT(page().size(), 200'000u);
  EXPECT_THAT(page(), HasSubstr("(998000 bytes more)</dd>"));
  write("config.toml", "model = '" + std::string(1'100'000, 'x') + "'\n");
  EXPECT_THAT(page(), HasSubstr("config.toml is skipped"));
}

constexpr Output::Kind kTestPage{"--out", kPageMark, false, "page"};
constexpr Output::Kind kTestTable{"--csv", kCsvMark, true, "table"};

class ReportOutput : public ReportFolderTest {
 protected:
  /// What refuses to write over the file; empty: nothing.
  std::string refusal(bool force, const Output::Kind& kind = kTestPage) const {
    try {
      Output output(root_ / "out", kind, force);
      output.write("new ");
      output.write(kind.mark);
      output.finish();
    } catch (const ConfigError& error) {
      return error.what() + std::string("; ") + error.hint();
    }
    return "";
  }
  std::size_t files() const {
    return std::size_t(std::distance(std::filesystem::directory_iterator(root_), {}));
  }
};

TEST_F(ReportOutput, NothingIsWrittenOverButAReport) {
  EXPECT_EQ(refusal(false), "");
  EXPECT_THAT(read(root_ / "out"), StartsWith("new "));
  EXPECT_THAT(refusal(false), HasSubstr("--force"));
  EXPECT_EQ(refusal(true), "");
  for (const std::string& text :
       {std::string("precious"), std::string(), std::string(2000, 'x') + std::string(kPageMark)}) {
    std::ofstream(root_ / "out", std::ios::binary) << text;
    for (const bool force : {false, true})
      EXPECT_THAT(refusal(force), HasSubstr("not even --force"));
    EXPECT_EQ(read(root_ / "out"), text);
  }
  std::ofstream(root_ / "out") << "run,kind,step,epoch,samples,loss,accuracy";
  EXPECT_THAT(refusal(true), HasSubstr("is not a page"));
  EXPECT_EQ(refusal(true, kTestTable), "");
  EXPECT_EQ(files(), 2u) << "a temporary file was left";
}

TEST_F(ReportOutput, FoldersLinksAndDevices) {
  std::filesystem::create_directory(root_ / "out");
  EXPECT_THAT(refusal(true), HasSubstr("is a folder"));
  std::filesystem::remove(root_ / "out");
  std::filesystem::create_symlink("/dev/null", root_ / "out");
  EXPECT_THAT(refusal(true), HasSubstr("is not a page"));
  std::filesystem::remove(root_ / "out");
  std::filesystem::create_symlink(root_ / "nowhere", root_ / "out");
  EXPECT_THAT(refusal(true), HasSubstr("is not a page"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "nowhere"));
}

TEST_F(ReportOutput, WhatIsNotFinishedDisappears) {
  {
    Output output(root_ / "out", kTestPage, false);
    output.write("half");
  }
  EXPECT_EQ(files(), 1u);
  Output missing(root_ / "none" / "out", kTestPage, false);
  EXPECT_THROW(missing.write("x"), EnvironmentError);
}

TEST_F(ReportOutput, NamesOfTemporaryFilesAreNotFollowed) {
  std::ofstream(root_ / "precious") << "precious";
  const std::filesystem::path trap = root_ / fmt::format("out.{}.0.tmp", getpid());
  std::filesystem::create_symlink(root_ / "precious", trap);
  EXPECT_THROW(io::OutputFile(trap, io::OutputFile::IfThere::refused), EnvironmentError);
  EXPECT_EQ(refusal(false), "");
  EXPECT_EQ(refusal(true), "");
  EXPECT_EQ(read(root_ / "precious"), "precious");
  EXPECT_TRUE(std::filesystem::is_symlink(trap));
  EXPECT_EQ(files(), 4u) << "run, out, precious and the link";
}

TEST_F(ReportOutput, SomebodyElseIsFaster) {
  Output output(root_ / "out", kTestPage, false);
  output.write(kPageMark);
  std::ofstream(root_ / "out") << "precious";
  EXPECT_THROW(output.finish(), ConfigError);
  EXPECT_EQ(read(root_ / "out"), "precious");
}

}  // namespace
}  // namespace lockstep::report
