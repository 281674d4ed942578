// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "tests/tracing/small_training.h"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;

/// What the played tool wrote.
struct Seen {
  std::string domain;
  std::set<std::string> paths;  ///< "step = 1/forward/conv2d1 conv2d"
  std::set<std::string> exchanges;
  int open = 0, open_exchanges = 0;  ///< at the end
  bool underflow = false;
};

Seen read_ranges(const std::string& file) {
  Seen seen;
  std::vector<std::string> stack;
  std::set<std::string> started;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::string what = line.substr(0, line.find(' '));
    const std::string rest = what == line ? "" : line.substr(what.size() + 1);
    if (what == "domain") seen.domain = rest;
    if (what == "push") {
      stack.push_back(stack.empty() ? rest : stack.back() + "/" + rest);
      seen.paths.insert(stack.back());
    }
    if (what == "pop") {
      if (stack.empty())
        seen.underflow = true;
      else
        stack.pop_back();
    }
    if (what == "start") {
      const std::string number = rest.substr(0, rest.find(' '));
      started.insert(number);
      seen.exchanges.insert(rest.substr(number.size() + 1));
    }
    if (what == "end" && started.erase(rest) == 0) seen.underflow = true;
  }
  seen.open = int(stack.size());
  seen.open_exchanges = int(started.size());
  return seen;
}

TEST(TrainingUnderATool, ShowsStepsPhasesAndLayers) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "lockstep_ranges_test";
  std::filesystem::create_directories(folder);
  const std::string file = folder / "ranges.txt";
  setenv("NVTX_INJECTION64_PATH", FAKE_NVTX, 1);
  setenv("FAKE_NVTX_FILE", file.c_str(), 1);
  TrainOptions options;
  options.checkpoint.folder = folder / "checkpoints";
  testing::train_small(options);

  const Seen seen = read_ranges(file);
  EXPECT_EQ(seen.domain, "lockstep");
  EXPECT_FALSE(seen.underflow);
  EXPECT_EQ(seen.open, 0);
  EXPECT_EQ(seen.open_exchanges, 0);
  EXPECT_THAT(seen.paths,
              IsSupersetOf({"step = 1",
                            "step = 2/data",
                            "step = 3/forward",
                            "step = 1/forward/conv2d1 conv2d",
                            "step = 1/backward",
                            "step = 1/backward/conv2d1 conv2d_bwd_weights",
                            "step = 3/exchange",
                            "step = 3/optimizer",
                            "evaluation",
                            "evaluation/forward/conv2d1 conv2d",
                            "checkpoint"}));
  EXPECT_THAT(seen.exchanges, Contains("exchange bucket 0"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
