// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

class OutputRelay;
class RunLog;

/// Rank 0's standard output: whole lines and, on a terminal, one bar line below them that is
/// redrawn in place. It never waits for a reader that stops, and gives up an output that is closed
/// or full. For one thread.
///
///   lockstep::Console console(lockstep::console_kind());
///   console.line("loaded 60,000 images");
class Console {
 public:
  enum class Kind { lines, terminal };
  explicit Console(Kind kind);
  /// Lines go into `copy` as well, a log of the program lockstep; null: into none.
  void set_copy(RunLog* copy);
  /// Says on standard error what is wrong with standard output, where no copy has it.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Prints `text` and a newline.
  void line(std::string_view text);
  /// Into the copy alone.
  void copy_line(std::string_view text);
  /// Shows a bar of `share` (0 to 1) with `parts` after it, from the first on as many as fit the
  /// terminal. Nothing where this is not a terminal.
  void bar(double share, std::span<const std::string> parts);
  void bar(double share, const std::string& part) { bar(share, std::span(&part, 1)); }
  bool shows_bar() const { return kind_ == Kind::terminal; }
  void clear_bar();

 private:
  void write(std::string_view text);
  void copy_trouble();
  Kind kind_;
  std::unique_ptr<OutputRelay> output_;
  RunLog* copy_ = nullptr;
  std::string trouble_;  // of the output, until there is a copy that has it
  bool bar_shown_ = false;
};

/// What standard output is: a terminal or something else, also where a launcher has started this
/// rank. Throws EnvironmentError: the launcher's variables contradict each other.
Console::Kind console_kind();

}  // namespace lockstep
