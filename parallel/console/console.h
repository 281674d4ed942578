// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/number_format.h"
#include "core/io/run_log.h"
#include "parallel/console/output_relay.h"

namespace lockstep {

/// Rank 0's standard output: whole lines and, on a terminal, one bar line below them that is
/// redrawn in place. It never waits for a reader, and gives up an output that is closed or full
/// (OutputRelay); the copy has every line, and says so.
class Console {
 public:
  enum class Kind { lines, terminal };
  /// Lines go into `copy` as well, once it is given.
  explicit Console(Kind kind);
  void set_copy(RunLog* copy);
  /// Says on standard error what is wrong with standard output, where no copy has it.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

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
  OutputRelay output_;
  RunLog* copy_ = nullptr;
  std::string trouble_;  // of the output, until there is a copy that has it
  bool bar_shown_ = false;
};

/// What standard output is. Of a rank that a launcher started: a terminal only where `lockstep
/// train` has started the launcher on one. Throws EnvironmentError as discover_rank().
Console::Kind console_kind();

/// Whether an mpirun of this command line (each argument with a NUL after it, as /proc has it)
/// makes lines of what its ranks print. `program` is the name of theirs, whose arguments follow.
bool mpirun_makes_lines(std::string_view command, std::string_view program);

/// The first of `parts`, two spaces between them, as many as have room in `columns`.
std::string parts_within(std::size_t columns, std::span<const std::string> parts);

}  // namespace lockstep
