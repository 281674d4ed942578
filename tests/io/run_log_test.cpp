// SPDX-License-Identifier: Apache-2.0
#include "core/io/run_log.h"

#include <fstream>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tests/io/scratch_folder.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream input(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

void write_raw(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::app) << text;
}

class RunLogTest : public ::testing::Test {
 protected:
  io::ScratchFolder folder_;
  const std::string file_ = folder_.file("host.log");
};

TEST_F(RunLogTest, AnEmptyOneForgetsAndOthersContinue) {
  for (const char* line : {"one", "two"}) RunLog(file_, RunLog::Open::append).write_line(line);
  RunLog(file_, RunLog::Open::shared).write_line("three");
  EXPECT_THAT(lines_of(file_), ElementsAre("one", "two", "three"));
  RunLog(file_, RunLog::Open::empty).write_line("four");
  EXPECT_THAT(lines_of(file_), ElementsAre("four"));
}

TEST_F(RunLogTest, ALineOfAKilledProcessDamagesNoOther) {
  RunLog first(file_, RunLog::Open::shared), second(file_, RunLog::Open::shared);
  first.write_line("{1}");
  write_raw(file_, "{torn");
  second.write_line("{2}");
  first.write_line("{3}");
  EXPECT_THAT(lines_of(file_), ElementsAre("{1}", "{torn", "{2}", "{3}"));
}

// Each writes long lines of its own letter.
TEST_F(RunLogTest, LinesOfSeveralProcessesStayWhole) {
  constexpr int kProcesses = 4, kLines = 200;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      RunLog log(file_, RunLog::Open::shared);
      for (int i = 0; i < kLines; ++i)
        log.write_line(std::string(std::size_t(100 + 97 * i), char('a' + p)));
      _exit(log.error().empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  std::vector<int> next(kProcesses);
  for (const std::string& line : lines_of(file_)) {
    if (line.empty()) continue;
    const auto process = std::size_t(line[0] - 'a');
    ASSERT_LT(process, next.size());
    const int number = next[process]++;
    EXPECT_EQ(line, std::string(std::size_t(100 + 97 * number), line[0]));
  }
  EXPECT_THAT(next, ::testing::Each(kLines));
}

}  // namespace
}  // namespace lockstep
