// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/metrics_file.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

#include "tests/io/scratch_folder.h"

namespace lockstep {
namespace {

class MetricsFile : public ::testing::Test {
 protected:
  /// What a run that resumes after `step` steps keeps of `text`.
  std::string kept(const std::string& text, std::int64_t step, bool evaluated = false) {
    const std::string file = folder_.write("metrics.jsonl", text);
    ResumeRecord resumed;
    resumed.step = step;
    resumed.evaluated = evaluated;
    keep_metrics_before(file, resumed);
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static std::string lines(int first, int last) {
    std::string text;
    for (int step = first; step <= last; ++step)
      text += fmt::format("{{\"step\":{},\"loss\":0.5}}\n", step);
    return text;
  }

  const io::ScratchFolder folder_;  // of this test alone: ctest runs several at a time
};

TEST_F(MetricsFile, LinesAfterTheStepGo) {
  for (const int last : {3, 5, 6, 30000})  // the last is longer than what is read at a time
    for (const int step : {0, 1, 3, 5, 29999})
      EXPECT_EQ(kept(lines(1, last), step), lines(1, std::min(last, step))) << last << " " << step;
}

TEST_F(MetricsFile, WhatIsCutOffAtItsEndGoes) {
  EXPECT_EQ(kept(lines(1, 5) + "{\"step\":6,\"lo", 5), lines(1, 5));
  EXPECT_EQ(kept(lines(1, 5) + "{\"step\":5", 5), lines(1, 5));
  EXPECT_EQ(kept("{\"step\":5", 5), "");
  EXPECT_EQ(kept("", 5), "");
  EXPECT_EQ(kept(lines(1, 5) + std::string(100, '\0') + "\n", 5), lines(1, 5));
}

TEST_F(MetricsFile, LinesThatStayAfterOnesThatGo) {
  const std::string validation = "{\"step\":5,\"val_loss\":1}\n",
                    fault = "{\"step\":5,\"fault\":\"x\"}\n";
  EXPECT_EQ(kept(lines(1, 5) + validation + fault + lines(6, 9), 5), lines(1, 5) + fault);
  EXPECT_EQ(kept(lines(1, 5) + validation + fault + lines(6, 9), 5, true),
            lines(1, 5) + validation + fault);
  const std::string checkpoint = "{\"step\":10,\"checkpoint\":\"x\"}\n";
  EXPECT_EQ(kept(lines(1, 15) + checkpoint + lines(16, 18), 12), lines(1, 12) + checkpoint);
  EXPECT_EQ(kept(lines(1, 4) + "no JSON\n" + lines(5, 7), 6),
            lines(1, 4) + "no JSON\n" + lines(5, 6));
  EXPECT_EQ(kept(lines(1, 4) + "no JSON\n" + lines(5, 7), 5), lines(1, 5));
}

}  // namespace
}  // namespace lockstep
