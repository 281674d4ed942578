// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/slurm_nodes.h"

#include <filesystem>
#include <gtest/gtest.h>

#include "tests/io/scratch_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Job 15, a task of array 12, with tools of Slurm that say what they are told to.
class SlurmNodes : public ::testing::Test {
 protected:
  SlurmNodes() { write("scontrol", "echo \"$3\" | tr , '\\n'"); }

  void write(const char* tool, const std::string& script) {
    fs::permissions(folder_.write(tool, "#!/bin/sh\n" + script + "\n"), fs::perms::owner_all);
  }
  /// Of a squeue that prints `jobs`, and with --steps `steps`.
  NodesBefore before(const std::string& jobs, const std::string& steps = {}) {
    write("squeue",
          "case $* in *--steps*) printf '" + steps + "' ;; *) printf '" + jobs + "' ;; esac");
    return nodes_before_start({{.name = "n1", .slots = 1}, {.name = "n2", .slots = 1}},
                              {{"SLURM_JOB_ID", "15"}, {"PATH", folder_.path()}});
  }

  const io::ScratchFolder folder_;
};

TEST_F(SlurmNodes, AreTheSameAsLongAsTheJobHasThem) {
  EXPECT_FALSE(before("15|n1,n2\\n").some_are_gone);
  EXPECT_TRUE(before("15|n1\\n").some_are_gone);
}

/// Rows of other tasks, of which one waits and has no nodes.
TEST_F(SlurmNodes, OfOtherTasksDoNotCount) {
  EXPECT_TRUE(before("12|\\n14|n7,n8\\n15|n2\\n").some_are_gone);
  EXPECT_FALSE(before("12|\\n14|n7\\n15|n1,n2\\n").some_are_gone);
  EXPECT_FALSE(before("15|\\n").some_are_gone);
}

TEST_F(SlurmNodes, StepsAreThoseThatSrunStartedThisProgramIn) {
  EXPECT_TRUE(before("15|n1,n2\\n", "15.batch|batch\\n15.0|lockstep\\n").has_steps);
  EXPECT_TRUE(before("15|n1,n2\\n", "12_3.4|lockstep\\n").has_steps);
  EXPECT_FALSE(before("15|n1,n2\\n", "15.batch|lockstep\\n15.1|my monitor\\n").has_steps);
  EXPECT_FALSE(before("15|n1,n2\\n").has_steps);
}

TEST_F(SlurmNodes, NothingIsKnownWhereSlurmDoesNotAnswer) {
  write("squeue", "exit 1");
  const std::vector<Host> nodes{{.name = "n1", .slots = 1}};
  const VariableMap variables{{"SLURM_JOB_ID", "15"}, {"PATH", folder_.path()}};
  EXPECT_FALSE(nodes_before_start(nodes, variables).some_are_gone);
  EXPECT_FALSE(nodes_before_start(nodes, {{"SLURM_JOB_ID", "15"}}).has_steps);
}

}  // namespace
}  // namespace lockstep
