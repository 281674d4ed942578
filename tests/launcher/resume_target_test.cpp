// SPDX-License-Identifier: Apache-2.0
// Where a resumed run has its settings from, on a disk that fails: a loop of links stands for it.
#include "launcher/settings/resume_target.h"

#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "tests/io/scratch_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TEST(ResumeTarget, CheckpointsThatCannotBeLookedUpAreNotTakenForNone) {
  const io::ScratchFolder out;
  out.write("history.jsonl", "{}\n");
  out.write("config.toml", "seed = 1\n");
  EXPECT_EQ(config_of_run("auto", out.path()), "") << "it begins anew";
  fs::create_symlink("checkpoints", out.file("checkpoints"));
  EXPECT_THROW(config_of_run("auto", out.path()), DataError);
}

TEST(ResumeTarget, AConfigurationThatCannotBeLookedUpIsNotTakenForNone) {
  const io::ScratchFolder run;
  run.write("history.jsonl", "{}\n");
  EXPECT_EQ(config_of_run(run.path(), ""), "");
  fs::create_symlink("config.toml", run.file("config.toml"));
  EXPECT_THROW(config_of_run(run.path(), ""), DataError);
}

}  // namespace
}  // namespace lockstep
