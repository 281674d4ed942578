// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "launcher/report/run_record.h"
#include "lockstep/error.h"
#include "tests/launcher/report_folder.h"

namespace lockstep::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ReportRecord : public ReportFolderTest {
 protected:
  std::string refusal() const {
    try {
      read_run(run());
    } catch (const DataError& error) {
      EXPECT_NE(error.hint(), "") << error.what();
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(ReportRecord, AWholeRun) {
  write("config.toml", "model = 'mlp'\nhidden = [64, 32]\n");
  write("environment.json", R"({"host": "a", "ranks": 2, "later": {"x": 1}})");
  write("history.jsonl",
        R"({"time": 1790000000, "step": 0, "ranks": 2, "host": "a"})"
        "\n");
  write("metrics.jsonl",
        step(10, "2.5") + step(20, "1.5") +
            R"({"step":20,"val_loss":1.25,"val_accuracy":0.5,"seconds":1})"
            "\n"
            R"({"step":20,"checkpoint":"c/20","seconds":1,"stall_ms":2,"error":""})"
            "\n"
            R"({"step":21,"epoch":1,"skipped_step":"the loss is nan"})"
            "\n");
  write(
      "summary.json",
      R"({"steps": 21, "val_accuracy": 0.5, "gpus": [], "ledger": [{"rank": 1, "host": "b", "seconds": 3,
            "data": 1, "forward": 2, "new_part": 7}], "advice": [{"cause": "data_wait", "text": "t",
            "evidence": "e", "remedy": "r", "gain": 0.41, "later": []}], "memory": {"parameters": 12},
            "noise_scale": null, "unknown": {"deep": [1]}})");
  const RunRecord record = read_run(run());
  EXPECT_THAT(record.notes, IsEmpty());
  EXPECT_EQ(record.name, "run");
  EXPECT_EQ(record.config_value("hidden"), "64, 32");
  EXPECT_EQ(record.environment_value("ranks"), "2");
  EXPECT_EQ(record.starts.size(), 1u);
  EXPECT_EQ(record.steps, 21);
  EXPECT_EQ(record.logged_steps, 2);
  EXPECT_EQ(record[Quantity::loss].mean(), 2);
  EXPECT_EQ(record[Quantity::val_loss].mean(), 1.25);
  EXPECT_TRUE(record[Quantity::noise_scale].empty());
  EXPECT_EQ(record.checkpoints.count, 1);
  EXPECT_EQ(record.skips.kept[0].what, "the loss is nan");
  ASSERT_TRUE(record.summary.has_value());
  EXPECT_EQ(record.summary->number("val_accuracy"), 0.5);
  EXPECT_EQ(record.summary->number("unknown"), std::nullopt);
  ASSERT_EQ(record.summary->breakdown.size(), 1u);
  EXPECT_EQ(record.summary->breakdown[0].parts[std::size_t(Part::data)], 1);
  EXPECT_EQ(record.summary->breakdown[0].host, "b");
  ASSERT_EQ(record.summary->advice->size(), 1u);
  EXPECT_EQ(record.summary->advice->at(0).gain, 0.41);
  EXPECT_THAT(record.summary->memory,
              ElementsAre(std::pair<std::string, double>("parameters", 12)));
}

TEST_F(ReportRecord, ARunThatIsRunning) {
  write("config.toml", "model = 'mlp'\n");
  write("metrics.jsonl", step(1) + step(2) + R"({"step":3,"lo)");
  const RunRecord record = read_run(run());
  EXPECT_FALSE(record.summary.has_value());
  EXPECT_EQ(record.steps, 2);
  EXPECT_THAT(record.notes, ElementsAre(HasSubstr("cut off")));
  EXPECT_NE(record.last_change, "");
}

TEST_F(ReportRecord, ADiskThatLostItsPower) {
  for (const std::string& tail : {std::string(4096, '\0'),
                                  "{\"step\":2,\"lo" + std::string(4096, '\0'),
                                  std::string("{\"step\":2,\"lo\n")}) {
    write("metrics.jsonl", step(1) + tail);
    EXPECT_EQ(read_run(run()).steps, 1);
  }
}

TEST_F(ReportRecord, NothingButAConfiguration) {
  write("config.toml", "model = 'mlp'\n");
  const RunRecord record = read_run(run());
  EXPECT_THAT(record.notes, ElementsAre(HasSubstr("no metrics.jsonl")));
  write("metrics.jsonl", "");
  EXPECT_EQ(read_run(run()).steps, 0);
}

TEST_F(ReportRecord, NumbersThatAreNone) {
  write("metrics.jsonl",
        step(1) + step(2, "NaN") + step(3, "-Infinity") + step(4, "null") + step(5, "\"nan\"") +
            step(6, "1e300") + step(7, "-nan") + step(8));
  const RunRecord record = read_run(run());
  EXPECT_EQ(record.logged_steps, 8);
  EXPECT_EQ(record[Quantity::loss].records(), 2);
  EXPECT_EQ(record[Quantity::step_ms].records(), 8);
  EXPECT_THAT(record.notes, ElementsAre(HasSubstr("in 6 logged steps")));
}

TEST_F(ReportRecord, NamesOfNumbersInTextsStay) {
  write("metrics.jsonl", "{\"step\":1,\"skipped_step\":\"loss NaN \\\" inf\",\"x\":NaN}\n");
  EXPECT_EQ(read_run(run()).skips.kept.at(0).what, "loss NaN \" inf");
}

TEST_F(ReportRecord, FoldersWithoutARun) {
  EXPECT_THAT(refusal(), HasSubstr("holds no run"));
  write("metrics.json", "{}");
  EXPECT_THAT(refusal(), HasSubstr("holds no run"));
  EXPECT_THROW(read_run(run() + "/metrics.json"), DataError);
  EXPECT_THROW(read_run(run() + "/none"), DataError);
  std::filesystem::create_directory(run() + "/metrics.jsonl");
  EXPECT_THROW(read_run(run()), DataError);
}

TEST_F(ReportRecord, LinesOfOtherFiles) {
  const std::pair<std::string, const char*> kCases[] = {
      {step(1) + "rank 1 of 2 on b, process 7\n" + step(2), "line 2 is not a JSON object"},
      {step(1) + "[1,2]\n" + step(2), "line 2 is not a JSON object"},
      {step(1) + "7\n" + step(2), "line 2 is not a JSON object"},
      {step(1) +
           R"({"event":"start"})"
           "\n" +
           step(2),
       "line 2 has no step"},
      {step(1) +
           R"({"step":"2","loss":1})"
           "\n" +
           step(3),
       "line 2 has no step"},
      {step(1) +
           R"({"step":1.5,"loss":1})"
           "\n" +
           step(3),
       "line 2 has no step"},
      {step(1) + R"({"step":-1,"loss":1})"
                 "\n",
       "line 2 has no step"},
      {step(1) + R"({"step":18446744073709551615,"loss":1})"
                 "\n",
       "line 2 has no step"},
      {step(1) + "{\"step\":2,\"lo{\"step\":3,\"loss\":1}\n" + step(4),
       "line 2 is not a JSON object"},
      {step(1) + std::string(100'000, 'x') + "\n" + step(2), "longer than"},
      {step(1) + step(2) + step(1) + step(2), "line 3: step 1 comes after step 2"},
      {step(1) + step(2) + step(2), "line 3: step 2 comes after step 2"},
  };
  for (const auto& [text, words] : kCases) {
    write("metrics.jsonl", text);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("metrics.jsonl"), HasSubstr(words)))
        << text.substr(0, 200);
  }
}

TEST_F(ReportRecord, OnlyRollbacksGoBack) {
  const std::string rollback =
      R"({"step":2,"rollback":"c/2","spike_step":4,"loss":90,"mean":1,"spread":1,"first_left_out":2,"last_left_out":3})"
      "\n";
  write("metrics.jsonl",
        step(1) + step(2) + step(3) + step(4, "90") + rollback + step(3) + step(4));
  const RunRecord record = read_run(run());
  EXPECT_EQ(record[Quantity::loss].records(), 4);
  EXPECT_EQ(record[Quantity::loss].greatest(), 0.5);
  EXPECT_THAT(record.rollbacks.kept.at(0).what, HasSubstr("c/2"));
  write("history.jsonl", "{\"step\":0}\n{\"step\":2,\"checkpoint\":\"c/2\"}\n");
  write("metrics.jsonl", step(1) + step(2) + step(3) + step(3, "0.25"));
  EXPECT_THAT(refusal(), HasSubstr("line 4: step 3 comes after step 3"))
      << "a start from a checkpoint takes out what comes again";
}

TEST_F(ReportRecord, EvaluationsGoBackInARollbackAlone) {
  const auto evaluation = [](int number, const char* loss) {
    return fmt::format("{{\"step\":{},\"val_loss\":{}}}\n", number, loss);
  };
  const std::string until_4 = step(1) + step(2) + evaluation(2, "1") + step(3) + step(4);
  write("metrics.jsonl", until_4 + evaluation(4, "2") + evaluation(4, "2"));
  EXPECT_EQ(read_run(run())[Quantity::val_loss].records(), 3) << "the end may measure once more";
  write("metrics.jsonl", until_4 + evaluation(4, "2") + evaluation(3, "2"));
  EXPECT_THAT(refusal(), HasSubstr("line 7: the evaluation of step 3 comes after step 4"));
  write("metrics.jsonl",
        until_4 + evaluation(4, "9") + "{\"step\":2,\"rollback\":\"c/2\"}\n" + step(3) +
            evaluation(3, "3"));
  const RunRecord record = read_run(run());
  EXPECT_EQ(record[Quantity::val_loss].records(), 2);
  EXPECT_EQ(record[Quantity::val_loss].greatest(), 3);
}

TEST_F(ReportRecord, MemoryOfVeryManyOperatorsIsJoined) {
  std::string bytes = "1";
  for (int i = 1; i < 100'000; ++i) bytes += i == 77'777 ? ",9" : ",1";
  write("metrics.jsonl", step(1));
  write("memory.json", "{\"live_bytes\":[" + bytes + "],\"joined\":9000000000000000}");
  const RunRecord record = read_run(run());
  EXPECT_EQ(record.step_memory->joined, 128) << "1,500 entries at most, of a power of two each";
  EXPECT_EQ(record.step_memory->live_bytes.at(77'777 / 128), 9);
}

TEST_F(ReportRecord, LaterVersions) {
  write("metrics.jsonl",
        R"({"step":1,"loss":1,"new":{"a":[1,{"step":"x"}]},"newer":[1]})"
        "\n"
        R"({"step":1,"probe":3})"
        "\n");
  const RunRecord record = read_run(run());
  EXPECT_EQ(record.logged_steps, 1);
  EXPECT_THAT(record.notes, ElementsAre(HasSubstr("1 lines of metrics.jsonl are of a kind")));
  write("metrics.jsonl",
        R"({"step":1,"format":2,"loss":1})"
        "\n");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("metrics.jsonl line 1"), HasSubstr("format 2")));
  write("metrics.jsonl", step(1));
  for (const char* name : {"summary.json", "environment.json"}) {
    write(name, R"({"format": 2})");
    EXPECT_THAT(refusal(), AllOf(HasSubstr(name), HasSubstr("format 2")));
    write(name, R"({"format": 1})");
  }
  EXPECT_THAT(read_run(run()).notes, IsEmpty());
}

TEST_F(ReportRecord, DamagedFilesAreLeftOutAndSaidSo) {
  const std::pair<const char*, std::string> kCases[] = {
      {"config.toml", "[section]\n"},
      {"config.toml", "lr = \n"},
      {"environment.json", "{\"host\""},
      {"environment.json", "[]"},
      {"environment.json", ""},
      {"summary.json", "{\"a\":1,\"a\":2}"},
      {"summary.json", std::string(100, '[')},
      {"history.jsonl", "x\n{\"step\":0}\n"},
      {"history.jsonl", "{\"step\":0}\n{\"st"},
      {"memory.json", R"({"live_bytes":[1,-1]})"},
      {"memory.json", "{}"},
      {"summary.json", std::string("\xff\xfe")},
  };
  for (const auto& [name, text] : kCases) {
    write("metrics.jsonl", step(1));
    write(name, text);
    const RunRecord record = read_run(run());
    EXPECT_THAT(record.notes, ElementsAre(HasSubstr(name))) << text;
    EXPECT_EQ(record.steps, 1);
    std::filesystem::remove(root_ / "run" / name);
  }
}

// As on a disk that fails: what cannot be looked up is not absent.
TEST_F(ReportRecord, FilesThatCannotBeLookedUp) {
  for (const char* name :
       {"config.toml", "environment.json", "history.jsonl", "summary.json", "memory.json"}) {
    write("metrics.jsonl", step(1));
    std::filesystem::create_symlink(name, root_ / "run" / name);
    EXPECT_THAT(read_run(run()).notes, ElementsAre(HasSubstr(name)));
    std::filesystem::remove(root_ / "run" / name);
  }
  write("config.toml", "lr = 1\n");
  std::filesystem::remove(root_ / "run/metrics.jsonl");
  std::filesystem::create_symlink("metrics.jsonl", root_ / "run/metrics.jsonl");
  EXPECT_THAT(refusal(), HasSubstr("metrics.jsonl"));
}

TEST_F(ReportRecord, MembersOfOtherTypesAreAsIfAbsent) {
  write("metrics.jsonl",
        R"({"step":1,"loss":[1],"accuracy":{"x":1},"lr":true,"step_ms":"fast"})"
        "\n" +
            step(2));
  write(
      "summary.json",
      R"({"steps":"many","ledger":[7,{"rank":"x","seconds":null,"data":-1}],"advice":[1,{"gain":"much"}],
            "memory":{"a":"b","c":-1,"d":1e300},"gpus":[1,{"busy":{"mean":0.5}}]})");
  const RunRecord record = read_run(run());
  EXPECT_EQ(record.logged_steps, 1);
  EXPECT_EQ(record.summary->number("steps"), std::nullopt);
  ASSERT_EQ(record.summary->breakdown.size(), 1u);
  EXPECT_EQ(record.summary->breakdown[0].parts[std::size_t(Part::data)], 0);
  ASSERT_EQ(record.summary->advice->size(), 1u);
  EXPECT_FALSE(record.summary->advice->at(0).gain.has_value());
  ASSERT_EQ(record.summary->gpus.size(), 1u);
  EXPECT_EQ(record.summary->gpus[0].at(0).name, "busy mean");
}

TEST_F(ReportRecord, ThousandsOfEventsAreCounted) {
  std::string text;
  for (int i = 1; i <= 5000; ++i)
    text += fmt::format("{{\"step\":{},\"skipped_step\":\"cause {}\"}}\n", i, i);
  write("metrics.jsonl", text);
  const RunRecord record = read_run(run());
  EXPECT_EQ(record.skips.count, 5000);
  EXPECT_EQ(record.skips.kept.size(), EventList::kMax);
  EXPECT_EQ(record.skips.kept.back().step, 5000);
}

}  // namespace
}  // namespace lockstep::report
