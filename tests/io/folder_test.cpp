// SPDX-License-Identifier: Apache-2.0
#include "core/io/folder.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "tests/io/scratch_folder.h"

namespace lockstep::io {
namespace {

using ::testing::HasSubstr;

TEST(Folder, ALinkThatLeadsInACircleIsCalledOne) {
  const ScratchFolder folder;
  const std::filesystem::path link = std::filesystem::path(folder.path()) / "link";
  std::filesystem::create_symlink(link, link);
  try {
    names_in(link);
    FAIL() << "expected an EnvironmentError";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr(link.string()));
    EXPECT_THAT(error.what(), HasSubstr("symbolic link"));
    EXPECT_THAT(error.hint(), HasSubstr("remove the link"));
  }
}

}  // namespace
}  // namespace lockstep::io
