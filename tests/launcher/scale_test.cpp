// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "launcher/plan/network_file.h"
#include "launcher/scale/scale_flags.h"
#include "launcher/scale/scale_machine.h"
#include "launcher/scale/scale_report.h"
#include "launcher/scale/scale_runs.h"
#include "launcher/settings/flags.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ScaleFlags scale_flags(std::vector<std::string> more) {
  more.insert(more.begin(), {"--out", "x", "--global-batch", "64", "--micro-batch", "8"});
  return parse_scale_flags(more);
}

TEST(ScaleFlags, Counts) {
  EXPECT_THAT(parse_counts("--ranks", "4,1,2", 1, 100), ElementsAre(1, 2, 4));
  for (const char* text : {"", "1,", ",1", "1,,2", "0", "-1", "101", "two", "1 2", "2,2", "1.5"})
    EXPECT_THROW(parse_counts("--ranks", text, 1, 100), ConfigError) << text;
}

TEST(ScaleFlags, WhatIsMeasured) {
  const ScaleFlags flags = scale_flags({"--ranks", "1,2,4"});
  std::vector<std::string> words;
  for (const Experiment& e : experiments_of(flags))
    words.push_back(fmt::format("{} {} {}", name_of(e.mode), e.ranks, e.global_batch));
  EXPECT_THAT(words,
              ElementsAre("strong 1 64", "strong 2 64", "weak 2 128", "strong 4 64", "weak 4 256"));
  EXPECT_EQ(experiments_of(scale_flags({"--ranks", "1,2,4", "--mode", "weak"})).size(), 3u);
  const std::vector<std::string> train =
      train_arguments(flags, experiments_of(flags).back(), "folder");
  EXPECT_EQ(parse_train_flags(train).options.global_batch, 256);
  EXPECT_EQ(parse_train_flags(train).options.micro_batch, 8);
  EXPECT_EQ(parse_train_flags(train).options.steps, 60);
  EXPECT_EQ(parse_train_flags(train).out, "folder");
}

TEST(ScaleFlags, Refusals) {
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{},
                                             {"--ranks", "1,16"},  // 8 micro-batches
                                             {"--ranks", "1", "--mode", "weakly"},
                                             {"--ranks", "1,2", "--hold-out", "3"},
                                             {"--ranks", "2", "--hold-out", "2"},
                                             {"--ranks", "1,2", "--hold-out", "1,2"},
                                             {"--ranks", "1", "--steps", "3"},
                                             {"--ranks", "1", "--repeats", "0"},
                                             {"--ranks", "1", "--epochs", "1"},
                                             {"--ranks", "1", "--resume", "auto"},
                                             {"--ranks", "1", "--micro-batch", "auto"},
                                             {"--ranks", "1", "--accumulation=2"},
                                             {"--ranks", "1", "--network", "nowhere.toml"},
                                             {"--ranks", "1", "--launcher", "rocket"},
                                             {"--ranks", "1", "--modle", "mlp"}})
    EXPECT_THROW(scale_flags(bad), ConfigError) << fmt::format("{}", fmt::join(bad, " "));
  EXPECT_THROW(parse_scale_flags({"--ranks", "1"}), ConfigError) << "no --out";
}

class RunTimesFile : public ::testing::Test {
 protected:
  RunTimesFile() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-scale-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~RunTimesFile() override { fs::remove_all(folder_); }
  RunTimes read(const std::string& text) {
    std::ofstream(folder_ + "/metrics.jsonl") << text;
    return read_run_times(folder_);
  }
  std::string folder_;
};

TEST_F(RunTimesFile, TheMedianOfTheWindowsButTheFirst) {
  const RunTimes times = read(
      "{\"step\": 10, \"step_ms\": 90, \"comm_exposed_ms\": 50}\n"
      "{\"step\": 20, \"step_ms\": 10, \"comm_exposed_ms\": 1}\n"
      "{\"val_loss\": 1}\n"
      "{\"step\": 30, \"step_ms\": 30, \"comm_exposed_ms\": 2}\n"
      "{\"step\": 40, \"step_ms\": 20, \"comm_exposed_ms\": 4}\n"
      "{\"step\": 50, \"step_");  // cut off
  EXPECT_DOUBLE_EQ(times.step_s, 0.020);
  EXPECT_DOUBLE_EQ(times.exposed_s, 0.002);
}

TEST_F(RunTimesFile, WhatSaysNothing) {
  EXPECT_THROW(read_run_times(folder_), DataError);
  const std::string first = "{\"step_ms\": 9, \"comm_exposed_ms\": 1}\n";
  for (const std::string& text : {std::string(),
                                  first,
                                  first + "{\"step_ms\": null, \"comm_exposed_ms\": 1}\n",
                                  first + "{\"step_ms\": 5}\n",
                                  first + "{\"step_ms\": 5, \"comm_exposed_ms\": 6}\n",
                                  first + "{\"step_ms\": -5, \"comm_exposed_ms\": 0}\n"})
    EXPECT_THROW(read(text), DataError) << text;
}

/// Two repeats of each experiment on a machine that follows the model, one 10% slower.
std::vector<ScaleRun> ideal_runs(const ScaleFlags& flags,
                                 const Workload& work,
                                 const Machine& machine,
                                 const CostParameters& truth) {
  std::vector<ScaleRun> runs;
  const std::vector<Experiment> experiments = experiments_of(flags);
  for (int i = 0; i < int(experiments.size()); ++i)
    for (int repeat = 1; repeat <= 3; ++repeat) {
      const Experiment& e = experiments[std::size_t(i)];
      const StepCost cost =
          predict(work,
                  machine,
                  truth,
                  share_of(options_of(flags, e), e.ranks, machine.network.ranks_per_host));
      const double disturbed = repeat == 2 ? 1.1 : 1;
      runs.push_back({i,
                      repeat,
                      "folder",
                      "log",
                      {cost.step_s() * disturbed, cost.exposed_s * disturbed},
                      ""});
    }
  return runs;
}

class Scaled : public ::testing::Test {
 protected:
  const ScaleFlags flags_ =
      scale_flags({"--ranks", "1,2,4", "--hold-out", "4", "--predict", "8,100"});
  const Workload work_{
      .buckets = {{4e6, 0.5}, {4e6, 1}}, .micro_batch = 8, .backward_share = 2.0 / 3};
  const Machine machine_{shared_memory_network(), 4};
  const std::vector<ScaleRun> runs_ =
      ideal_runs(flags_,
                 work_,
                 machine_,
                 {.fixed_s = 1e-3, .per_sample_s = 1e-3, .contention = 1.2, .overlap = 0});
  const ScaleResult result_ = evaluate_scale(flags_, runs_, work_, machine_);
  const ScaleSubject subject_{"m<l>\"p", "data", "cpu", 3, runs_, true};
};

TEST_F(Scaled, EfficiencyAndPrediction) {
  ASSERT_EQ(result_.points.size(), 5u);
  EXPECT_EQ(result_.points[0].efficiency.median, 1);
  for (const ScalePoint& point : result_.points) {
    const Experiment& e = point.experiment;
    EXPECT_DOUBLE_EQ(
        point.efficiency.median,
        point.samples_per_s.median / (e.ranks * result_.points[0].samples_per_s.median));
    EXPECT_NEAR(point.efficiency.least, point.efficiency.median / 1.1, 1e-12);
    EXPECT_EQ(point.held_out, e.ranks == 4);
    ASSERT_TRUE(point.predicted);
    // The prior weighs a millionth of a squared relative error.
    EXPECT_NEAR(point.predicted->step_s(), point.step_s.median, 2e-3 * point.step_s.median);
  }
  // 64 samples are too few for 100 ranks. 6400 are enough, though 100 are more than the shards of a
  // run where no one names their number.
  std::vector<std::string> words;
  for (const ScaleForecast& f : result_.forecasts)
    words.push_back(fmt::format("{} {}", name_of(f.experiment.mode), f.experiment.ranks));
  EXPECT_THAT(words, ElementsAre("strong 8", "weak 8", "weak 100"));
  ASSERT_EQ(result_.unpredicted.size(), 1u);
  EXPECT_EQ(result_.unpredicted[0].experiment.ranks, 100);
  EXPECT_THAT(result_.unpredicted[0].reason, HasSubstr("smaller than the number of ranks, 100"));
  EXPECT_THAT(scale_text(subject_, result_), HasSubstr("strong 100 ranks cannot be predicted: "));
  EXPECT_THAT(scale_json(subject_, result_), HasSubstr("smaller than the number of ranks, 100"));
}

TEST_F(Scaled, RunsThatFailedAreLeftOut) {
  std::vector<ScaleRun> runs = runs_;
  for (ScaleRun& run : runs)
    if (run.experiment == 4) run.error = "no";
  const ScaleResult result = evaluate_scale(flags_, runs, work_, machine_);
  EXPECT_EQ(result.points.size(), 4u);
  for (ScaleRun& run : runs) run.error = "no";
  const ScaleResult none = evaluate_scale(flags_, runs, work_, machine_);
  EXPECT_TRUE(none.points.empty());
  EXPECT_FALSE(none.model);
  EXPECT_THAT(scale_text(subject_, none), HasSubstr("no cost model"));
  EXPECT_THAT(scale_page(subject_, none), HasSubstr("</html>"));
}

TEST_F(Scaled, WhatWasNotFittedIsSaid) {
  EXPECT_THAT(scale_text(subject_, result_), Not(HasSubstr("not fitted")));
  const ScaleFlags flags = scale_flags({"--ranks", "1,2", "--hold-out", "2", "--predict", "4"});
  std::vector<ScaleRun> runs = ideal_runs(flags, work_, machine_, {.per_sample_s = 1e-3});
  const ScaleResult alone = evaluate_scale(flags, runs, work_, machine_);
  const std::string words = "communication not fitted: no run with several ranks";
  EXPECT_EQ(explain_missing_fit(alone, 1), "");
  EXPECT_EQ(explain_missing_fit(alone, 2), words);
  EXPECT_THAT(scale_text(subject_, alone),
              ::testing::ContainsRegex("held out: strong 2 ranks: [^\n]*% \\(" + words));
  EXPECT_THAT(scale_text(subject_, alone),
              ::testing::ContainsRegex("not measured: weak 4 ranks: [^\n]*% \\(" + words));
  EXPECT_THAT(scale_text(subject_, alone), HasSubstr("as assumed, not measured"));

  // Ranks of this host say nothing of others.
  const ScaleFlags further =
      scale_flags({"--ranks", "1,2,4", "--predict", "8,64", "--network", "ethernet"});
  const Machine here = *machine_of(further, {}, true, 1);
  runs = ideal_runs(further, work_, here, {.per_sample_s = 1e-3});
  const ScaleResult inside = evaluate_scale(further, runs, work_, here);
  EXPECT_EQ(inside.model->slowness_between, 1);
  EXPECT_EQ(explain_missing_fit(inside, 8), "");
  EXPECT_THAT(explain_missing_fit(inside, 64), HasSubstr("between hosts not fitted"));
  EXPECT_THAT(scale_text(subject_, inside), HasSubstr("between hosts as assumed, not measured"));
}

TEST_F(Scaled, SeveralHostsWithoutANetworkGetNoModel) {
  const ScaleResult result = evaluate_scale(flags_, runs_, work_, std::nullopt);
  EXPECT_EQ(result.points.size(), 5u);
  EXPECT_FALSE(result.model);
  EXPECT_THAT(scale_text(subject_, result), HasSubstr("no cost model: no network named"));
}

TEST(ScaleMachine, OneHost) {
  LaunchSite site;
  site.cores.count = 2;
  const ScaleFlags flags = scale_flags({"--ranks", "1,2"});
  EXPECT_EQ(hosts_of(flags, site, {}), 1);
  const Machine here = machine_of(flags, site, false, 1).value();
  EXPECT_EQ(here.cores, 2);
  EXPECT_FALSE(here.on_gpus);
  EXPECT_TRUE(machine_of(flags, site, true, 1)->on_gpus);
  // Of the 16 that were measured here, none was on another host.
  const ScaleFlags many = scale_flags(
      {"--ranks", "16", "--network", "ib", "--global-batch", "128", "--micro-batch", "8"});
  EXPECT_EQ(machine_of(many, site, false, 1)->network.ranks_per_host, 16);
}

TEST(ScaleMachine, SeveralHosts) {
  LaunchSite site;
  site.hosts = {{"a", 2}, {"b", 2}};
  site.cores.count = 4;
  const ScaleFlags nameless = scale_flags({"--ranks", "1,2,4"});
  EXPECT_EQ(hosts_of(nameless, site, {}), 2);
  EXPECT_FALSE(machine_of(nameless, site, false, 2));
  const ScaleFlags flags = scale_flags({"--ranks", "1,2,4", "--network", "ethernet"});
  const Machine machine = machine_of(flags, site, false, 2).value();
  EXPECT_EQ(machine.network.ranks_per_host, 2);
  EXPECT_EQ(machine.cores, 2);
  EXPECT_FALSE(machine.on_gpus) << "processors of other hosts are no GPUs";
}

TEST(ScaleMachine, Slurm) {
  LaunchSite site;
  site.slurm_allocation = true;
  site.cores.count = 7;  // tasks
  const ScaleFlags flags = scale_flags({"--ranks", "1,2", "--network", "ib"});
  EXPECT_EQ(hosts_of(flags, site, {{"SLURM_JOB_NUM_NODES", "2"}}), 2);
  EXPECT_EQ(hosts_of(flags, site, {{"SLURM_NNODES", "1"}}), 1);
  for (const char* text : {"", "x", "0", "-1", "2x"})
    EXPECT_EQ(hosts_of(flags, site, {{"SLURM_NNODES", text}}), 0) << text;
  EXPECT_EQ(machine_of(flags, site, false, 2)->network.ranks_per_host, 4);
  const ScaleFlags jobs =
      scale_flags({"--ranks", "1,2", "--network", "ib", "--launcher", "sbatch"});
  EXPECT_EQ(hosts_of(jobs, {}, {}), 0);
  const Machine unknown = machine_of(jobs, {}, false, 0).value();
  EXPECT_EQ(unknown.network.ranks_per_host, 8);
  EXPECT_EQ(unknown.cores, 0);
}

TEST_F(Scaled, TablesAndPage) {
  const std::string text = scale_text(subject_, result_);
  EXPECT_THAT(text, HasSubstr("held out: strong 4 ranks: predicted"));
  EXPECT_THAT(text, HasSubstr("predicted, not measured: weak 8 ranks"));
  const std::string csv = scale_csv(result_);
  std::istringstream lines(csv);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows)
    EXPECT_EQ(std::ranges::count(line, ','), 15) << line;
  EXPECT_EQ(rows, 6);
  const std::string markdown = scale_markdown(subject_, result_);
  EXPECT_THAT(markdown, HasSubstr("| mode | ranks |"));
  const std::string page = scale_page(subject_, result_);
  const std::string mark = "type=\"application/json\">";
  const std::size_t from = page.find(mark) + mark.size();
  const auto json = nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(json["title"], "Scaling of m<l>\"p");
  const auto& blocks = json["sections"][0]["blocks"];
  const auto& charts = blocks[0]["charts"];
  ASSERT_EQ(charts.size(), 3u);
  std::vector<std::string> curves;
  for (const auto& series : charts[0]["series"]) curves.push_back(series["name"]);
  EXPECT_THAT(curves, ElementsAre("strong", "strong, predicted", "weak", "weak, predicted"));
  EXPECT_EQ(charts[0]["series"][0]["x"], nlohmann::json({1, 2, 4}));
  EXPECT_NEAR(charts[0]["series"][0]["y"][0].get<double>(),
              result_.points[0].samples_per_s.median,
              1e-5 * result_.points[0].samples_per_s.median);
  EXPECT_EQ(charts[0]["series"][0]["min"].size(), 3u);
  EXPECT_EQ(charts[1]["unit"], "percent");
  EXPECT_EQ(charts[0]["x_ticks"], nlohmann::json({1, 2, 4, 8, 100}));
  EXPECT_EQ(blocks[1]["rows"].size(), 5u);
}

TEST(JobScript, WordsStayWords) {
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
  const std::string script = job_script(4, {"srun", "--data", "csv:a b.csv"}, "out/log");
  EXPECT_THAT(script, HasSubstr("#SBATCH --ntasks=4\n"));
  EXPECT_THAT(script, HasSubstr("exec 'srun' '--data' 'csv:a b.csv' >'out/log' 2>&1\n"));
}

TEST(NetworkFile, Numbers) {
  const Network network = parse_network(
      "ranks_per_host = 4\ninside_latency_us = 2\ninside_bandwidth_GBps = 100\n"
      "between_latency_us = 5.5 # and a comment\nbetween_bandwidth_GBps = 25\n",
      "mine");
  EXPECT_EQ(network.name, "mine");
  EXPECT_EQ(network.ranks_per_host, 4);
  EXPECT_DOUBLE_EQ(network.inside.latency_s, 2e-6);
  EXPECT_DOUBLE_EQ(network.between.bytes_per_s, 25e9);
  EXPECT_THROW(parse_network("ranks_per_host = 4\nbetween_latency_us = 5\n"
                             "between_bandwidth_GBps = 25\n",
                             "inside is missing"),
               ConfigError);
}

}  // namespace
}  // namespace lockstep
