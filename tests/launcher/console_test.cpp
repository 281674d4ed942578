// SPDX-License-Identifier: Apache-2.0
#include "launcher/console.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <termios.h>
#include <unistd.h>

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

TEST(Console, AReaderThatStopsCostsASecondAndSomeLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  constexpr int kLines = 20000;  // more than a pipe holds
  std::string before, after;
  double seconds = 0;
  {
    const Replaced replaced(ends[1]);
    Console console(Console::Kind::lines);
    seconds = seconds_to_write(console, kLines);
    before = read_all(ends[0]);
    console.line("back");
    after = read_all(ends[0]);
  }
  EXPECT_GT(seconds, 0.9);
  EXPECT_LT(seconds, 3);
  close(ends[0]);
  close(ends[1]);
  // What came is whole, and the rest is counted.
  const std::string all = before + after;
  const std::size_t notice = all.find(" lines were dropped");
  ASSERT_NE(notice, std::string::npos) << after;
  const std::size_t line = all.rfind('\n', notice) + 1;
  const int dropped = std::stoi(all.substr(line, notice - line));
  std::string expected;
  for (int i = 0; i < kLines - dropped; ++i) expected += fmt::format("line {}\n", i);
  EXPECT_EQ(all.substr(0, line), expected);
  EXPECT_EQ(all.substr(all.find('\n', notice) + 1), "back\n");
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
  {
    const Replaced replaced(screen);
    Console console(Console::Kind::terminal);
    seconds = seconds_to_write(console, 1000);
    tcflow(screen, TCOON);
    console.line("back");
  }
  EXPECT_LT(seconds, 3);
  EXPECT_NE(read_all(terminal).find("were dropped"), std::string::npos);
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
