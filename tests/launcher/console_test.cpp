// SPDX-License-Identifier: Apache-2.0
#include "lockstep/console.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <termios.h>
#include <thread>
#include <unistd.h>

#include "core/io/run_log.h"
#include "parallel/console/console.h"
#include "parallel/console/output_relay.h"

namespace lockstep {
namespace {

/// Puts `output` in the place of standard output.
class Replaced {
 public:
  explicit Replaced(int output) : before_(dup(STDOUT_FILENO)) {
    fflush(stdout);
    dup2(output, STDOUT_FILENO);
  }
  ~Replaced() {
    dup2(before_, STDOUT_FILENO);
    close(before_);
  }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  int before_;
};

std::string read_all(int from) {
  fcntl(from, F_SETFL, O_NONBLOCK);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(from, buffer, sizeof buffer)) > 0;)
    text.append(buffer, std::size_t(got));
  return text;
}

double seconds_to_write(Console& console, int lines) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < lines; ++i) console.line(fmt::format("line {}", i));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Console, OnlyOptionsOfMpirunMakeLinesOfTheOutput) {
  const auto makes_lines = [](std::initializer_list<std::string_view> arguments) {
    std::string command;
    for (const std::string_view argument : arguments) command.append(argument) += '\0';
    return mpirun_makes_lines(command, "lockstep");
  };
  EXPECT_FALSE(makes_lines({"mpirun", "-n", "2", "bin/lockstep", "train", "--output-dir", "x"}));
  EXPECT_FALSE(makes_lines({"mpirun", "-n", "2", "bin/lockstep", "train", "--output", "x"}));
  EXPECT_FALSE(makes_lines({"mpirun", "--bind-to", "none", "sh", "wrap.sh", "--output-dir=x"}));
  for (const char* option : {"--tag-output", "-tag-output", "--timestamp-output"})
    EXPECT_TRUE(makes_lines({"mpirun", option, "-n", "2", "bin/lockstep", "train"})) << option;
  EXPECT_TRUE(makes_lines({"mpirun", "--output-filename", "logs", "lockstep", "train"}));
  EXPECT_TRUE(makes_lines({"mpirun", "--output", "tag", "lockstep", "train"}));
  EXPECT_FALSE(makes_lines({}));
}

TEST(OutputRelay, AReaderThatStopsCostsNoTimeAndBeyondSomeMemoryLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  constexpr int kLines = 200'000;  // more than a pipe and kMaxWaiting hold
  std::string all;
  {
    OutputRelay relay(ends[1], "standard output");
    for (int i = 0; i < kLines; ++i) relay.line(fmt::format("line {}", i));
    EXPECT_TRUE(relay.trouble().has_value());
    for (std::string piece; !(piece = read_all(ends[0])).empty(); all += piece) relay.push();
    relay.line("back");
    all += read_all(ends[0]);
    EXPECT_FALSE(relay.trouble().has_value());
  }
  close(ends[0]);
  close(ends[1]);
  // What came is whole, and the rest is counted.
  const std::size_t notice = all.find(" lines were dropped");
  ASSERT_NE(notice, std::string::npos) << all.substr(all.size() - 200);
  const std::size_t line = all.rfind('\n', notice) + 1;
  const int dropped = std::stoi(all.substr(line, notice - line));
  std::string expected;
  for (int i = 0; i < kLines - dropped; ++i) expected += fmt::format("line {}\n", i);
  EXPECT_EQ(all.substr(0, line), expected);
  EXPECT_GE(expected.size(), OutputRelay::kMaxWaiting - 20) << "that much is kept";
  EXPECT_EQ(all.substr(all.find('\n', notice) + 1), "back\n");
}

// What mpirun's output is read in has no regard for lines.
TEST(OutputRelay, WholeLinesAreDroppedOfTextThatComesInPieces) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string all;
  {
    OutputRelay relay(ends[1], "standard output");
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += fmt::format("line {}\n", i);
    for (std::size_t at = 0; at < text.size(); at += 1000) relay.pass(text.substr(at, 997));
    relay.pass("begin of a line, ");
    for (std::string piece; !(piece = read_all(ends[0])).empty(); all += piece) relay.push();
    relay.pass("rest of a line\nback\n");
    all += read_all(ends[0]);
  }
  close(ends[0]);
  close(ends[1]);
  const std::size_t notice = all.find(" lines were dropped");
  ASSERT_NE(notice, std::string::npos);
  EXPECT_EQ(all.substr(all.find('\n', notice) + 1), "back\n");
}

// As where the connection of a terminal stalls: it is not stopped, but it is not read.
TEST(OutputRelay, ATerminalThatNobodyReadsCostsNoTime) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const int screen = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(screen, 0);
  {
    OutputRelay relay(screen, "standard output");
    const std::string line(77, 'x');
    for (int i = 0; i < 5000; ++i) relay.line(line);
  }
  close(screen);
  close(terminal);
}

TEST(OutputRelay, AReaderThatComesBackBetweenTwoStartsSeesWhatFollows) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string all;
  {
    OutputRelay relay(ends[1], "standard output");
    for (int i = 0; i < 200'000; ++i) relay.line(fmt::format("line {}", i));
    relay.finish(10);  // the ranks have ended, and nothing reads
    for (std::string piece; !(piece = read_all(ends[0])).empty(); all += piece) relay.push();
    relay.line("starting again");
    all += read_all(ends[0]);
  }
  close(ends[0]);
  close(ends[1]);
  EXPECT_NE(all.find(" lines were dropped"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\nstarting again\n"));
}

TEST(OutputRelay, ASlowReaderGetsAll) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string all;
  std::jthread reader([&] {
    char buffer[4096];
    for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
      all.append(buffer, std::size_t(got));
      usleep(500);
    }
  });
  std::string expected;
  {
    OutputRelay relay(ends[1], "standard output");
    for (int i = 0; i < 50'000; ++i) {
      relay.line(fmt::format("line {}", i));
      expected += fmt::format("line {}\n", i);
    }
  }
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(all, expected);
}

TEST(Console, WhatIsWrongWithTheOutputWaitsForACopy) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const std::string file = ::testing::TempDir() + "lockstep_console_copy";
  std::string said;
  {
    const Replaced replaced(ends[1]);
    RunLog copy(file);
    testing::internal::CaptureStderr();
    {
      Console console(Console::Kind::lines);
      console.line("nobody reads this");
      console.set_copy(&copy);
      console.line("the copy has this");
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    copy.close();
    std::ifstream input(file);
    said.assign(std::istreambuf_iterator<char>(input), {});
    // Of a command that keeps no copy.
    testing::internal::CaptureStderr();
    { Console(Console::Kind::lines).line("nor this"); }
    EXPECT_NE(testing::internal::GetCapturedStderr().find("standard output is lost"),
              std::string::npos);
  }
  close(ends[1]);
  std::filesystem::remove(file);
  EXPECT_NE(said.find("standard output is lost"), std::string::npos) << said;
  EXPECT_NE(said.find("the copy has this"), std::string::npos) << said;
}

TEST(Console, ATerminalThatIsStoppedDoesNotStopTraining) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const int screen = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(screen, 0);
  ASSERT_EQ(tcflow(screen, TCOOFF), 0);  // Ctrl-S
  double seconds = 0;
  std::string shown;
  {
    const Replaced replaced(screen);
    Console console(Console::Kind::terminal);
    seconds = seconds_to_write(console, 1000);
    tcflow(screen, TCOON);
    // The terminal hands on what it is given in its own time.
    for (int i = 0; i < 1000 && shown.find("line 999") == std::string::npos; ++i) {
      console.bar(0, "");
      usleep(1000);
      shown += read_all(terminal);
    }
  }
  EXPECT_LT(seconds, 3);
  EXPECT_NE(shown.find("line 999"), std::string::npos) << "nothing was lost";
  close(screen);
  close(terminal);
}

TEST(Console, AnOutputThatIsClosedIsGivenUp) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const auto before = signal(SIGPIPE, SIG_IGN);
  {
    const Replaced replaced(ends[1]);
    Console console(Console::Kind::lines);
    EXPECT_LT(seconds_to_write(console, 1000), 0.5);
  }
  signal(SIGPIPE, before);
  close(ends[1]);
}

// mpirun gives its ranks one, whatever its own output is.
TEST(Console, APseudoTerminalOfALauncherIsNoTerminal) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const int screen = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(screen, 0);
  setenv("TERM", "xterm", 1);
  Console::Kind alone{}, launched{};
  {
    const Replaced replaced(screen);
    alone = console_kind();
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    launched = console_kind();
  }
  unsetenv("OMPI_COMM_WORLD_RANK");
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(alone, Console::Kind::terminal);
  EXPECT_EQ(launched, Console::Kind::lines);
  close(screen);
  close(terminal);
}

}  // namespace
}  // namespace lockstep
