// SPDX-License-Identifier: Apache-2.0
// A run whose column of many categories is one-hot, as versions made it that embedded none.
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "launcher/commands/commands.h"
#include "launcher/commands/train_run.h"
#include "launcher/settings/flags.h"
#include "lockstep/data/preprocessing_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OneHotRun : public ::testing::Test {
 protected:
  OneHotRun() : folder_(fs::temp_directory_path() / fmt::format("lockstep-one-hot-{}", getpid())) {
    fs::create_directories(folder_);
    write("towns.csv", 0, 160);
    write("new.csv", 160, 40);
  }
  ~OneHotRun() override { fs::remove_all(folder_); }

  void write(const std::string& name, int first, int rows) const {
    std::ofstream file(folder_ / name);
    file << "size,town,kind\n";
    for (int row = first; row < first + rows; ++row)
      file << row % 7 << ",t" << row * 7 % 40 << ",k" << row * 7 % 40 % 2 << "\n";
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  TrainFlags flags(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"--device=cpu", "--ranks=1", "--out=" + at(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return parse_train_flags(arguments);
  }
  TrainFlags one_hot(const std::string& out, int steps) const {
    TrainFlags result = flags(out,
                              {"--data=csv:" + at("towns.csv"),
                               "--model=mlp",
                               "--val-fraction=0.25",
                               "--global-batch=30",
                               "--momentum=0.9",
                               fmt::format("--steps={}", steps)});
    result.table.one_hot_columns = {"town"};
    return result;
  }
  static void train(const TrainFlags& flags) {
    Job job(0, nullptr);
    ::testing::internal::CaptureStdout();
    const int code = run_training(job, {.flags = flags, .arguments = {}, .notice = {}});
    ::testing::internal::GetCapturedStdout();
    ASSERT_EQ(code, 0);
  }
  std::string hash(const std::string& out) const {
    std::ifstream file(at(out + "/summary.json"));
    return nlohmann::json::parse(file).at("weights_sha256").get<std::string>();
  }
  static std::string said(int (*command)(const std::vector<std::string>&),
                          const std::vector<std::string>& arguments) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(command(arguments), 0);
    return ::testing::internal::GetCapturedStdout();
  }

  fs::path folder_;
};

TEST_F(OneHotRun, IsEvaluatedAndPredictsByItsRecord) {
  train(one_hot("run", 300));
  const data::Preprocessing record = io::read_preprocessing(at("run/preprocessing.json"));
  EXPECT_FALSE(record.table->columns[1].embedded);
  EXPECT_EQ(record.samples.input.to_string(), "f32[41]");
  EXPECT_THAT(said(evaluate_command, {"--from", at("run"), "--data=csv:" + at("new.csv")}),
              HasSubstr("accuracy 100"));
  const std::string lines =
      said(predict_command, {"--from", at("run"), "--format=json", at("new.csv")});
  EXPECT_THAT(lines, HasSubstr("\"class\":\"k0\""));
  EXPECT_EQ(std::ranges::count(lines, '\n'), 40);
}

TEST_F(OneHotRun, GoesOnAsItWas) {
  train(one_hot("whole", 20));
  train(one_hot("run", 10));
  for (const bool folder_has_record : {true, false}) {
    const std::string out = folder_has_record ? "a" : "b";
    fs::copy(at("run"), at(out), fs::copy_options::recursive);
    if (!folder_has_record) fs::remove(at(out + "/preprocessing.json"));
    const TrainFlags resumed = flags(out, {"--resume=auto", "--steps=20"});
    EXPECT_THAT(resumed.table.one_hot_columns, ElementsAre("town"));
    train(resumed);
    EXPECT_EQ(hash(out), hash("whole"));
  }
  const TrainFlags branch = flags("branch", {"--resume=" + at("run"), "--steps=20"});
  EXPECT_THAT(branch.table.one_hot_columns, ElementsAre("town"));
  // A run that is begun now embeds the column.
  EXPECT_THAT(flags("new", {"--data=csv:" + at("towns.csv")}).table.one_hot_columns, IsEmpty());
}

}  // namespace
}  // namespace lockstep
