// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "launcher/report/csv.h"
#include "launcher/report/output.h"
#include "lockstep/error.h"
#include "tests/launcher/report_folder.h"

namespace lockstep::report {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

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
