// SPDX-License-Identifier: Apache-2.0
#include "core/base/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "tests/io/scratch_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TEST(FileKind, TellsFilesFoldersAndNothingApart) {
  const io::ScratchFolder scratch;
  const std::string file = scratch.write("file", "x");
  EXPECT_TRUE(is_file(file) && is_there(file) && !is_folder(file));
  EXPECT_TRUE(is_folder(scratch.path()) && is_there(scratch.path()) && !is_file(scratch.path()));
  fs::create_symlink("gone", scratch.file("link"));
  for (const std::string& nothing : {scratch.file("gone"), scratch.file("link"), file + "/below"})
    EXPECT_FALSE(is_there(nothing) || is_file(nothing) || is_folder(nothing)) << nothing;
}

TEST(FileKind, AnErrorIsNoAbsence) {
  const io::ScratchFolder scratch;
  const std::string loop = scratch.file("loop");
  fs::create_symlink("loop", loop);
  try {
    is_there(loop);
    ADD_FAILURE() << "accepted";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(loop));
    EXPECT_NE(error.hint(), "");
  }
}

}  // namespace
}  // namespace lockstep
