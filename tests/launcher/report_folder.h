// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace lockstep::report {

/// A run's folder as a test writes it.
class ReportFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) /
            (std::string("lockstep_report_") + test->test_suite_name() + test->name());
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "run");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string run() const { return (root_ / "run").string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / "run" / name, std::ios::binary) << text;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream input(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(input), {}};
  }
  /// A line of metrics.jsonl.
  static std::string step(int number, const std::string& loss = "0.5") {
    return "{\"step\":" + std::to_string(number) + ",\"loss\":" + loss + ",\"step_ms\":4}\n";
  }

  std::filesystem::path root_;
};

}  // namespace lockstep::report
