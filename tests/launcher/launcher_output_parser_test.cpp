// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/launcher_output_parser.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace lockstep {
namespace {

const std::string kRule(74, '-');

/// Byte by byte, as a pipe may deliver it.
std::string shown_of(ErrorOutput& output, const std::string& text) {
  std::string shown;
  for (const char c : text) shown += output.take(std::string(1, c));
  return shown + output.end();
}

TEST(ErrorOutput, MpirunNamesARankThatWasKilled) {
  ErrorOutput output;
  const std::string box = kRule +
                          "\nmpirun noticed that process rank 1 with PID 0 on node vm "
                          "exited on signal 9 (Killed).\n" +
                          kRule + "\n";
  EXPECT_EQ(shown_of(output, "a warning\n" + box + "the last"), "a warning\nthe last\n");
  EXPECT_EQ(output.fault().text, "rank 1 on vm was ended by signal 9 (Killed)");
  EXPECT_FALSE(output.fault().said);
}

TEST(ErrorOutput, MpirunNamesAnExitCode) {
  ErrorOutput output;
  const std::string boxes =
      kRule +
      "\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. "
      "Per user-direction, the job has been aborted.\n" +
      kRule + "\n" + kRule +
      "\nmpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[43013,1],3]\n  Exit code:    9\n" +
      kRule + "\n";
  EXPECT_EQ(shown_of(output, boxes), "");
  EXPECT_EQ(output.fault().text, "rank 3 ended with exit code 9");
}

// Texts of Open MPI 5.0.7.
TEST(ErrorOutput, PrterunNamesRanksAsWell) {
  const auto box = [](const std::string& text) {
    return kRule + "\n" + text + "\n" + kRule + "\n";
  };
  ErrorOutput status;
  EXPECT_EQ(
      shown_of(status,
               box("prterun detected that one or more processes exited with non-zero status,\n"
                   "thus causing the job to be terminated. The first process to do so was:\n\n"
                   "   Process name: [prterun-node-7-17@1,3]\n   Exit code:    9")),
      "");
  EXPECT_EQ(status.fault().text, "rank 3 ended with exit code 9");
  ErrorOutput killed;
  EXPECT_EQ(shown_of(killed,
                     box("prterun noticed that process rank 1 with PID 53 on node vm exited on\n"
                         "signal 9 (Killed).")),
            "");
  EXPECT_EQ(killed.fault().text, "rank 1 on vm was ended by signal 9 (Killed)");
  ErrorOutput aborted;
  EXPECT_EQ(
      shown_of(aborted,
               box("prterun has exited due to process rank 1 with PID 0 on node vm calling\n"
                   "\"abort\". This may have caused other processes in the application to be\n"
                   "terminated by signals sent by prterun (as reported here).")),
      "");
  EXPECT_EQ(aborted.fault().text, "");
  ErrorOutput left;
  EXPECT_EQ(shown_of(left,
                     box("prterun has exited due to process rank 1 with PID 37 on node vm exiting\n"
                         "improperly. There are three reasons this could occur:")),
            "");
  EXPECT_TRUE(left.deserted());
  ErrorOutput lost;
  EXPECT_EQ(shown_of(lost,
                     box("PRTE has lost communication with a remote daemon.\n\n"
                         "  HNP daemon   : [prterun-vm-46@0,0] on node vm\n"
                         "  Remote daemon: [prterun-vm-46@0,1] on node b")),
            "");
  EXPECT_EQ(lost.fault().text, "host b went away");
}

TEST(ErrorOutput, ARankIsHeardWhereALauncherWroteZeroBytesBefore) {
  ErrorOutput output;
  const std::string box = kRule + "\nA peer has disconnected.\n" + kRule + "\n";
  const std::string rank = "[rank 0 a] error: the process died without a word\n";
  EXPECT_EQ(shown_of(output, box + '\0' + rank + '\0'), box + rank);
  EXPECT_EQ(output.fault().text + "\n", rank);
  output.take(box + '\0' + "[rank 0 a] warning: 3 of 4 ranks are left, and continue\n");
  EXPECT_EQ(output.survivors(), 3);
}

TEST(ErrorOutput, OtherBoxesAreShown) {
  ErrorOutput output;
  const std::string box = kRule + "\nThere are not enough slots available\n" + kRule + "\n";
  EXPECT_EQ(shown_of(output, box), box);
  EXPECT_EQ(shown_of(output, kRule + "\nno end"), kRule + "\nno end\n");
  EXPECT_EQ(output.fault().text, "");
}

TEST(ErrorOutput, ARankThatSpokeIsMoreThanTheLauncher) {
  ErrorOutput output;
  shown_of(output,
           "srun: error: n2: task 1: Exited with exit code 1\n"
           "[rank 1 n2] error: no such file\n");
  EXPECT_EQ(output.fault().text, "[rank 1 n2] error: no such file");
  EXPECT_EQ(output.fault().hint, "");
}

TEST(ErrorOutput, OfADeathTheLauncherKnowsTheSignal) {
  const std::string record =
      "[rank 1 vm] error: the process died without a word\n"
      "  process 12, step 3; seen by rank 0\nhint: look at dmesg\n";
  const auto box = [](int rank) {
    return kRule + "\nmpirun noticed that process rank " + std::to_string(rank) +
           " with PID 0 on node vm exited on signal 9 (Killed).\n" + kRule + "\n";
  };
  ErrorOutput same;
  EXPECT_EQ(shown_of(same, record + box(1)), record);
  EXPECT_EQ(same.fault().text, "rank 1 on vm was ended by signal 9 (Killed)");
  EXPECT_EQ(same.fault().step, 3);
  EXPECT_FALSE(same.fault().said);
  EXPECT_TRUE(same.fault().confirmed);
  ErrorOutput another;
  shown_of(another, record + box(2));
  EXPECT_EQ(another.fault().text, "[rank 1 vm] error: the process died without a word");
  EXPECT_EQ(another.fault().hint, "look at dmesg");
  EXPECT_FALSE(another.fault().confirmed);
}

TEST(ErrorOutput, WhatSrunEndedItselfConfirmsNoDeath) {
  ErrorOutput output;
  shown_of(output, "srun: error: n1: task 0: Killed\n");
  EXPECT_EQ(output.fault().text, "rank 0 on n1: Killed");
  EXPECT_FALSE(output.fault().confirmed);
  shown_of(output, "[rank 2 vm] error: the process died without a word\n");
  EXPECT_FALSE(output.fault().confirmed);
  ErrorOutput known;
  shown_of(known,
           "[rank 1 vm] error: the process died without a word\nsrun: error: n2: task 1: Killed\n");
  EXPECT_TRUE(known.fault().confirmed);
}

TEST(ErrorOutput, WhatRanksHaveOutlivedIsNoReasonOfTheEnd) {
  const std::string death = "[rank 1 vm] error: the process died without a word\n";
  const std::string left = "[rank 0 vm] warning: 3 of 4 ranks are left, and continue\n";
  ErrorOutput output;
  EXPECT_EQ(shown_of(output, "NBC_Progress: an error 75 was found\n" + death + left), death + left);
  EXPECT_EQ(output.survivors(), 3);
  EXPECT_FALSE(output.reports());
  EXPECT_EQ(output.fault().text, "");
  EXPECT_EQ(output.fault().step, -1);
  shown_of(output, "[rank 2 vm] error: no such file\n");
  EXPECT_EQ(output.fault().text, "[rank 2 vm] error: no such file");
  ErrorOutput another;  // of whatever else says so
  shown_of(another, death + "[rank 1 vm] warning: 3 of 4 ranks are left, and continue\n");
  EXPECT_EQ(another.survivors(), 0);
  EXPECT_TRUE(another.failed());
}

TEST(ErrorOutput, SrunNamesTasks) {
  ErrorOutput output;
  shown_of(output, "srun: error: n2: task 1: Killed\nsrun: error: n1: task 0: Terminated\n");
  EXPECT_EQ(output.fault().text, "rank 1 on n2: Killed");
}

TEST(LabelledOutput, TasksGetFilesOfTheirOwn) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "lockstep_labels";
  fs::remove_all(folder);
  {
    LabelledOutput output(folder.string(), "stdout");
    EXPECT_EQ(output.take(" 0: one\n1"), "one\n");
    EXPECT_EQ(output.take("1: two: 3\nsrun: error\n 0: mo"), "two: 3\nsrun: error\n");
    EXPECT_EQ(output.end(), "mo\n");
  }
  const auto text = [&](const std::string& name) {
    std::ifstream file(folder / name);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  EXPECT_EQ(text("rank.0/stdout"), "one\nmo\n");
  EXPECT_EQ(text("rank.11/stdout"), "two: 3\n");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
