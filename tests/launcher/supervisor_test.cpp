// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/supervisor.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "launcher/launch/mpirun_hang_detector.h"
#include "launcher/launch/shm_backing_dir.h"
#include "launcher/processes/child_process.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

Ending supervise(const ChildPlan& plan, SupervisorSignals& signals) {
  SupervisorOutput output;
  return lockstep::supervise(plan, signals, output);
}

ChildPlan shell(const std::string& script) {
  ChildPlan plan;
  // bash cannot trap what it inherits as ignored.
  plan.command = {"/usr/bin/env", "--default-signal=USR1", "bash", "-c", script};
  return plan;
}

/// A child that says when it is ready, and signals that are sent to this process from then on.
class Sender {
 public:
  Sender() { std::filesystem::remove(file_); }
  ChildPlan child(const std::string& trap, const std::string& rest) const {
    return shell(trap + "; touch " + file_ + "; " + rest);
  }
  bool child_is_ready() const { return std::filesystem::exists(file_); }
  void send(std::vector<int> signals) {
    thread_ = std::thread([this, signals] {
      while (!std::filesystem::exists(file_))
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (const int signal : signals) {
        kill(getpid(), signal);  // as a user or Slurm sends it
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
    });
  }
  ~Sender() {
    thread_.join();
    std::filesystem::remove(file_);
  }

 private:
  std::string file_ = testing::TempDir() + "lockstep_ready_" + std::to_string(getpid());
  std::thread thread_;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(Supervisor, ExitCodesAndSignalsOfTheChild) {
  SupervisorSignals signals;
  EXPECT_EQ(supervise(shell("exit 5"), signals).exit_code, 5);
  EXPECT_EQ(supervise(shell("kill -9 $$"), signals).exit_code, 137);
  EXPECT_FALSE(signals.requested());
  ChildPlan missing;
  missing.command = {"/no/such/launcher"};
  EXPECT_THROW(supervise(missing, signals), EnvironmentError);
}

TEST(Supervisor, ALauncherThatHangsBehindItsRanksIsEnded) {
  SupervisorSignals signals;
  const auto start = Clock::now();
  ChildPlan plan;
  plan.command = {"/usr/bin/env",
                  "python3",
                  "-c",
                  "import subprocess, threading\n"
                  "subprocess.run(['sleep', '2'])\n"
                  "lock = threading.Lock()\n"
                  "lock.acquire()\n"
                  "lock.acquire()\n"};
  plan.ranks_are_children = true;
  EXPECT_EQ(supervise(plan, signals).exit_code, 128 + SIGKILL);
  EXPECT_GE(seconds_since(start), MpirunHangDetector::kPatienceSeconds);
}

// As at a signal, of which this process has none. Children are asked once they have set their
// traps.
TEST(Supervisor, ChildrenThatAreToMoveAreAskedToStop) {
  SupervisorSignals signals;
  const std::string ready = testing::TempDir() + "lockstep_moves_" + std::to_string(getpid());
  std::filesystem::remove(ready);
  const std::string rest = "; touch " + ready + "; while :; do sleep 0.01; done";
  ChildPlan plan = shell("trap 'exit 75' USR1" + rest);
  plan.is_to_move = [&ready] { return std::filesystem::exists(ready); };
  Ending ending = supervise(plan, signals);
  EXPECT_EQ(ending.exit_code, 75);
  EXPECT_TRUE(ending.moves);
  EXPECT_FALSE(ending.stop_requested || ending.out_of_grace);
  std::filesystem::remove(ready);
  plan.command = shell("trap '' USR1 TERM" + rest).command;  // does not stop
  plan.grace_s = 0.1;
  ending = supervise(plan, signals);
  std::filesystem::remove(ready);
  EXPECT_TRUE(ending.moves && ending.out_of_grace);
  EXPECT_EQ(ending.exit_code, 137);
}

TEST(Supervisor, AStopDuringAMoveIsAStop) {
  SupervisorSignals signals;
  Sender sender;
  // Heeds the fifth request, of one a second, when the stop has long come.
  ChildPlan plan = sender.child("n=0; trap 'n=$((n+1)); [[ $n -lt 5 ]] || exit 75' USR1",
                                "while :; do sleep 0.01; done");
  plan.is_to_move = [&sender] { return sender.child_is_ready(); };
  sender.send({SIGTERM});
  const Ending ending = supervise(plan, signals);
  EXPECT_TRUE(ending.moves && ending.stop_requested);
  EXPECT_FALSE(ending.out_of_grace);
  EXPECT_EQ(ending.exit_code, 75);
}

// As mpirun does where a stranger holds a connection to it, with a rank that is stopped.
TEST(Supervisor, ALauncherThatHangsBehindAnErrorIsEndedWithTheOtherRanks) {
  SupervisorSignals signals;
  const auto start = Clock::now();
  ChildPlan plan = shell("sleep 300 & echo '[rank 1 b] error: no sign of life' >&2; wait");
  plan.ranks_are_children = true;
  plan.after_error_s = 300;
  plan.after_silence_s = 0.5;
  const Ending ending = supervise(plan, signals);
  EXPECT_EQ(ending.exit_code, int(ExitCode::collective_timeout));
  EXPECT_EQ(ending.fault.text, "[rank 1 b] error: no sign of life");
  EXPECT_LT(seconds_since(start), 60);
}

TEST(Supervisor, NeverTheTerminalsInputAndVariablesArrive) {
  SupervisorSignals signals;
  ChildPlan plan = shell("read -r line && exit 1; [[ $COLOUR == blue ]]");
  plan.variables["COLOUR"] = "blue";
  EXPECT_EQ(supervise(plan, signals).exit_code, 0);
}

TEST(Supervisor, TheFirstRecordOfARankIsTheCulprit) {
  SupervisorSignals signals;
  const Ending ending =
      supervise(shell("echo '[rank 2 b] error: disk gone' >&2; echo 'hint: another disk' >&2;"
                      "echo '[rank 0 a] error: rank 2 went away' >&2; exit 1"),
                signals);
  EXPECT_EQ(ending.fault.text, "[rank 2 b] error: disk gone");
  EXPECT_EQ(ending.fault.hint, "another disk");
  EXPECT_TRUE(ending.fault.said);
}

TEST(Supervisor, ARankThatLeavesWithExitCode0HasDied) {
  SupervisorSignals signals;
  const std::string rule(74, '-');
  const auto box = [&](const std::string& text) {
    return shell("echo '" + rule + "' >&2; echo '" + text + "' >&2; echo '" + rule +
                 "' >&2; exit 1");
  };
  const Ending left = supervise(
      box("mpirun has exited due to process rank 1 with PID 0 on\nnode vm exiting improperly."),
      signals);
  EXPECT_EQ(left.exit_code, 5) << "mpirun's own 1 depends on which end it sees first";
  EXPECT_EQ(left.fault.text, "rank 1 on vm left without leaving MPI");
  const Ending failed = supervise(box("Process name: [[43013,1],3]\n  Exit code:    1"), signals);
  EXPECT_EQ(failed.exit_code, 1) << "a rank's own error";
}

TEST(Supervisor, ALauncherThatHangsAfterAStopIsEndedWithTheCodeOfRankZero) {
  SupervisorSignals signals;
  Sender sender;
  ChildPlan plan = sender.child("trap 'ended=1' USR1", "while :; do sleep 0.05; done");
  plan.grace_s = 1000;
  plan.noted_end = [&] { return std::optional<int>(75); };
  sender.send({SIGTERM});
  const auto start = Clock::now();
  const Ending ending = supervise(plan, signals);
  EXPECT_EQ(ending.exit_code, 75);
  EXPECT_TRUE(ending.stop_requested);
  EXPECT_FALSE(ending.out_of_grace);
  EXPECT_LT(seconds_since(start), 60);
}

TEST(Supervisor, ARankThatMpiEndsHasDied) {
  SupervisorSignals signals;
  const std::string lines =
      "echo '[b:00000] *** An error occurred in Send error after request freed' >&2;"
      "echo '[b:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,' "
      ">&2;";
  const Ending ending = supervise(shell(lines + "exit 7"), signals);
  EXPECT_EQ(ending.exit_code, 5) << "7 is MPI_ERR_REQUEST here, no loss that is not finite";
  EXPECT_EQ(ending.fault.text, "MPI ended a rank on b: Send error after request freed");
  EXPECT_EQ(supervise(shell(lines + "exit 75"), signals).exit_code, 5) << "no rank was to stop";
  const auto exit_code_of = [&](const std::string& error) {
    const std::string line = "echo '[rank 0 a] error: " + error + "' >&2;";
    return supervise(shell(line + lines + "exit 7"), signals).exit_code;
  };
  EXPECT_EQ(exit_code_of("the loss is inf"), 7) << "what a rank says of itself counts";
  EXPECT_EQ(exit_code_of("another rank has died: MPI_Barrier"), 5);
  EXPECT_EQ(exit_code_of("the process died without a word"), 5);
  EXPECT_EQ(exit_code_of("no progress' >&2; echo '  process 1, step 2; seen by rank 1"), 5);
  EXPECT_EQ(supervise(shell("echo '[rank 0 a] error: a bug' >&2;" + lines + "exit 75"), signals)
                .exit_code,
            5);
  const std::string in_start = "echo '[b:00000] *** An error occurred in MPI_Init_thread' >&2;";
  EXPECT_EQ(supervise(shell(in_start + lines + "exit 1"), signals).exit_code, 1);
}

TEST(Supervisor, EverySignalBecomesOneWishToStop) {
  const auto hangup = std::signal(SIGHUP, SIG_DFL);  // nohup ignores it, and we with it
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    SupervisorSignals signals;
    Sender sender;
    sender.send({signal});
    const Ending ending =
        supervise(sender.child("trap 'exit 75' USR1", "while :; do sleep 0.05; done"), signals);
    EXPECT_EQ(ending.exit_code, 75) << signal;
    EXPECT_TRUE(ending.stop_requested);
    EXPECT_FALSE(ending.out_of_grace);
  }
  std::signal(SIGHUP, hangup);
}

TEST(Supervisor, ASecondSignalChangesNothingWithinTheGrace) {
  SupervisorSignals signals;
  Sender sender;
  sender.send({SIGTERM, SIGINT, SIGTERM});
  const Ending ending =
      supervise(sender.child("trap 'stop=1' USR1",
                             "while [[ -z ${stop-} ]]; do sleep 0.05; done; sleep 1; exit 75"),
                signals);
  EXPECT_EQ(ending.exit_code, 75);
  EXPECT_FALSE(ending.out_of_grace);
}

TEST(Supervisor, TwoInterruptsEndAtOnce) {
  SupervisorSignals signals;
  Sender sender;
  sender.send({SIGINT, SIGINT});
  const auto start = Clock::now();
  const Ending ending =
      supervise(sender.child("trap '' USR1", "while :; do sleep 0.1; done"), signals);
  EXPECT_EQ(ending.exit_code, 128 + SIGTERM);
  EXPECT_TRUE(ending.out_of_grace);
  EXPECT_LT(seconds_since(start), 30) << "of 60 s of grace";
}

TEST(Supervisor, TheGraceEnds) {
  SupervisorSignals signals;
  Sender sender;
  sender.send({SIGTERM});
  ChildPlan plan = sender.child("trap '' USR1", "while :; do sleep 0.1; done");
  plan.grace_s = 0.5;
  const auto start = Clock::now();
  const Ending ending = supervise(plan, signals);
  EXPECT_EQ(ending.exit_code, 128 + SIGTERM);
  EXPECT_TRUE(ending.out_of_grace);
  EXPECT_GE(seconds_since(start), 0.5);
}

TEST(Supervisor, WhatAKilledLauncherLeavesIsKilled) {
  SupervisorSignals signals;
  const std::string file = testing::TempDir() + "lockstep_orphan";
  std::filesystem::remove(file);
  const Ending ending = supervise(shell("setsid bash -c 'echo $$ > " + file +
                                        "; trap \"\" TERM; sleep 300' &"
                                        "while [[ ! -s " +
                                        file + " ]]; do sleep 0.05; done; kill -9 $$"),
                                  signals);
  EXPECT_EQ(ending.exit_code, 137);
  pid_t orphan = 0;
  std::ifstream(file) >> orphan;
  ASSERT_GT(orphan, 0);
  EXPECT_EQ(kill(orphan, 0), -1) << "the orphan lives";
}

TEST(Supervisor, ChildrenOfBeforeAreLeftAlone) {
  const pid_t earlier = fork();
  if (earlier == 0) {
    pause();
    _exit(0);
  }
  SupervisorSignals signals;
  supervise(shell("sleep 300 & exit 3"), signals);
  EXPECT_EQ(waitpid(earlier, nullptr, WNOHANG), 0) << "it was killed";
  kill(earlier, SIGKILL);
  waitpid(earlier, nullptr, 0);
}

TEST(Supervisor, AReaderThatDoesNotReadHoldsUpNoStop) {
  Pipe full;
  const int error_output = dup(STDERR_FILENO);
  dup2(full.write, STDERR_FILENO);
  Ending ending;
  {
    SupervisorSignals signals;
    Sender sender;
    sender.send({SIGTERM});
    ending = supervise(
        sender.child("trap 'exit 75' USR1", "while :; do echo {1..10000} >&2; sleep 0.01; done"),
        signals);
  }
  dup2(error_output, STDERR_FILENO);
  close(error_output);
  EXPECT_EQ(ending.exit_code, 75);
}

/// A process with a child that ends after so long, and then `waits`.
pid_t launcher_that(void (*waits)(), int child_ms = 1500) {
  const pid_t launcher = fork();
  if (launcher != 0) return launcher;
  const pid_t child = fork();
  if (child == 0) {
    poll(nullptr, 0, child_ms);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  for (;;) waits();
}

bool is_taken_for_hanging(pid_t launcher) {
  MpirunHangDetector idle(launcher, 1);
  const auto start = Clock::now();
  bool hangs = false;
  while (!hangs && seconds_since(start) < 5) {
    hangs = idle.hangs();
    poll(nullptr, 0, 20);
  }
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  return hangs;
}

void wait_for_a_lock() {
  int lock = 0;
  syscall(SYS_futex, &lock, FUTEX_WAIT, 0, nullptr, nullptr, 0);
}

TEST(MpirunHangDetector, WaitsForALock) {
  EXPECT_TRUE(is_taken_for_hanging(launcher_that(wait_for_a_lock)));
}

// Ranks that are killed as they start may never be seen.
TEST(MpirunHangDetector, WaitsForALockAndWasNeverSeenWithChildren) {
  EXPECT_TRUE(is_taken_for_hanging(launcher_that(wait_for_a_lock, 0)));
}

TEST(MpirunHangDetector, WhoWaitsForAReaderIsLeftAlone) {
  EXPECT_FALSE(is_taken_for_hanging(launcher_that([] {
    static Pipe full;
    char text[65536] = {};
    if (write(full.write, text, sizeof text) < 0) _exit(1);
  })));
}

TEST(Supervisor, SharedMemoryOfTheRanksIsRemoved) {
  ChildPlan plan = shell(
      "touch $OMPI_MCA_btl_vader_backing_directory/segment &&"
      "echo $OMPI_MCA_btl_vader_backing_directory > " +
      testing::TempDir() + "lockstep_segments; kill -9 $$");
  SupervisorSignals signals;
  {
    const ShmBackingDir segments(plan);
    EXPECT_EQ(supervise(plan, signals).exit_code, 137);
  }
  std::string folder;
  std::ifstream(testing::TempDir() + "lockstep_segments") >> folder;
  EXPECT_THAT(folder, testing::StartsWith("/dev/shm/lockstep-segments-"));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace lockstep
