// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/bytes_words.h"
#include "core/io/run_log.h"

namespace lockstep {

/// Rank 0's standard output: whole lines and, on a terminal, one bar line below them that is
/// redrawn in place. An output that is closed or full is given up silently; training goes on. It
/// waits for a reader that has stopped for a second once, and for moments from then on: lines are
/// dropped until it reads again, and then counted.
class Console {
 public:
  enum class Kind { lines, terminal };
  /// Lines go into `copy` as well, once it is given.
  explicit Console(Kind kind) : kind_(kind) {}
  /// Writes what a stopped reader has left, as far as it takes it at once.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  void set_copy(RunLog* copy) { copy_ = copy; }

  void line(std::string_view text);
  /// Into the copy alone.
  void copy_line(std::string_view text);
  /// Shows a bar of `share` (0 to 1) with `parts` behind it, from the first on as many as fit the
  /// terminal. Nothing where this is no terminal.
  void bar(double share, std::span<const std::string> parts);
  void bar(double share, const std::string& part) { bar(share, std::span(&part, 1)); }
  bool shows_bar() const { return kind_ == Kind::terminal; }
  void clear_bar();

 private:
  void write(std::string_view text);
  bool catch_up();
  bool put(std::string_view text, int patience_ms);
  Kind kind_;
  RunLog* copy_ = nullptr;
  bool bar_shown_ = false;
  bool broken_ = false;
  bool was_stopped_ = false;
  std::string rest_;  // begun, but not taken: what comes is dropped until it is
  long dropped_ = 0;  // lines, since then
};

/// What standard output is. Of a rank that a launcher started: a terminal only where `lockstep
/// train` has started the launcher on one. Throws EnvironmentError as discover_rank().
Console::Kind console_kind();

/// The first of `parts`, two spaces between them, as many as have room in `columns`.
std::string parts_within(std::size_t columns, std::span<const std::string> parts);

/// "12,345"
std::string with_thousands(double value);

/// "1m 23s"
std::string duration(double seconds);

}  // namespace lockstep
