// SPDX-License-Identifier: Apache-2.0
#include "parallel/console/console.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/env.h"
#include "core/base/text/printable.h"
#include "core/io/run_log.h"
#include "parallel/console/output_relay.h"
#include "parallel/session/error_report.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

int terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? size.ws_col : 80;
}

bool colours_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

}  // namespace

namespace {

bool stdout_is_terminal() {
  const char* type = std::getenv("TERM");
  const bool dumb = type == nullptr || std::string_view(type) == "dumb";
  return isatty(STDOUT_FILENO) && !dumb;
}

std::string own_name() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown).filename().string();
}

/// Whether `parent` is an mpirun of the user's own that copies its ranks' output to a terminal.
bool mpirun_on_terminal(pid_t parent) {
  const std::string folder = fmt::format("/proc/{}/", parent);
  const auto read = [&](const char* name) {
    std::ifstream file(folder + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  constexpr std::array<std::string_view, 4> kNames{
      "mpirun\n", "mpiexec\n", "orterun\n", "prterun\n"};
  if (std::ranges::find(kNames, read("comm")) == kNames.end()) return false;
  if (mpirun_makes_lines(read("cmdline"), own_name())) return false;
  struct stat status {};
  const std::string output = folder + "fd/1";
  if (stat(output.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return false;
  const int descriptor = open(output.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool terminal = isatty(descriptor);
  close(descriptor);
  return terminal;
}

}  // namespace

bool mpirun_makes_lines(std::string_view command, std::string_view program) {
  constexpr std::array<std::string_view, 4> kOptions{
      "tag-output", "timestamp-output", "output-filename", "output"};
  for (bool is_first = true; !command.empty(); is_first = false) {
    const std::size_t end = std::min(command.find('\0'), command.size());
    std::string_view argument = command.substr(0, end);
    command.remove_prefix(std::min(end + 1, command.size()));
    // What follows are arguments of the ranks' program.
    if (!is_first && argument.substr(argument.rfind('/') + 1) == program) return false;
    if (!argument.starts_with('-')) continue;
    argument.remove_prefix(argument.starts_with("--") ? 2 : 1);
    argument = argument.substr(0, argument.find('='));
    if (std::ranges::find(kOptions, argument) != kOptions.end()) return true;
  }
  return false;
}

Console::Kind console_kind() {
  const auto kind = [](bool terminal) {
    return terminal ? Console::Kind::terminal : Console::Kind::lines;
  };
  const LaunchedBy launcher = discover_rank(process_variables()).launched_by;
  if (launcher == LaunchedBy::none) return kind(stdout_is_terminal());
  // mpirun gives ranks a pseudo-terminal even where its own output is a file.
  if (env().started) return kind(env().started == "terminal");
  return kind(launcher == LaunchedBy::mpi && stdout_is_terminal() && mpirun_on_terminal(getppid()));
}

Console::Console(Kind kind)
    : kind_(kind), output_(std::make_unique<OutputRelay>(STDOUT_FILENO, "standard output")) {}

Console::~Console() {
  try {
    if (!trouble_.empty()) print_warning(trouble_, 0);
  } catch (...) {  // no memory for a warning
  }
}

void Console::line(std::string_view text) {
  clear_bar();
  const std::string shown = printable_lines(text);
  write(shown + "\n");
  copy_line(shown);
}

void Console::copy_line(std::string_view text) {
  if (copy_ != nullptr) copy_->write_line(text);
}

std::string parts_within(std::size_t columns, std::span<const std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    const std::size_t gap = text.empty() ? 0 : 2;
    if (text.size() + gap + part.size() > columns) break;
    text.append(gap, ' ') += part;
  }
  return text;
}

void Console::bar(double share, std::span<const std::string> parts) {
  if (kind_ != Kind::terminal) return;
  constexpr int kBeside = 12, kMinCells = 5, kMaxCells = 40;  // kBeside: "\r[]  50%  "
  const int room = terminal_columns() - kBeside;
  const std::string text = parts_within(std::size_t(std::max(0, room - kMinCells)), parts);
  const int cells = std::clamp(room - int(text.size()), kMinCells, kMaxCells);
  const int done = std::clamp(int(std::lround(share * cells)), 0, cells);
  const std::string filled(std::size_t(done), '=');
  const std::string rest(std::size_t(cells - done), ' ');
  const bool colours = colours_wanted();
  write(fmt::format("\r{}[{}{}]{} {:3.0f}%  {}{}",
                    colours ? "\033[36m" : "",
                    filled,
                    rest,
                    colours ? "\033[0m" : "",
                    100 * share,
                    text,
                    "\033[K"));
  bar_shown_ = true;
}

void Console::clear_bar() {
  if (!bar_shown_) return;
  write("\r\033[K");
  bar_shown_ = false;
}

void Console::write(std::string_view text) {
  output_->pass(text);
  if (const auto trouble = output_->trouble()) trouble_ = *trouble;
  copy_trouble();
}

void Console::copy_trouble() {
  if (copy_ == nullptr || trouble_.empty()) return;
  copy_line(fmt::format("warning: {}; training continues, and its lines are here",
                        std::exchange(trouble_, std::string())));
}

void Console::set_copy(RunLog* copy) {
  copy_ = copy;
  copy_trouble();
}

}  // namespace lockstep
