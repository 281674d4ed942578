// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>

namespace lockstep {

/// Copies text to a descriptor and never waits for whoever reads it, so that a reader that stops or
/// leaves stops nothing else. What is not taken yet waits here, up to kMaxWaiting bytes; what comes
/// beyond is dropped, whole lines of it, and counted once the reader reads again. An output that
/// fails (closed, full, a terminal that is gone) is given up for good. SIGPIPE has to be ignored.
/// For one thread.
class OutputRelay {
 public:
  static constexpr std::size_t kMaxWaiting = std::size_t(1) << 20;

  /// `name` is for messages: "standard output".
  OutputRelay(int descriptor, std::string name);
  /// finish(), with a second of patience; what is left is lost.
  ~OutputRelay();
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;

  void pass(std::string_view text);
  /// pass() of the text and a newline.
  void line(std::string_view text);
  /// What poll() is to wait for before push(): room for what waits; nothing where none does.
  pollfd waited() const { return {waiting() == 0 ? -1 : descriptor_, POLLOUT, 0}; }
  /// Writes what the reader takes at once.
  void push();
  /// Writes what waits, for as long as the reader takes some of it every `patience_ms`, 10 s at
  /// most. The rest continues waiting.
  void finish(int patience_ms);
  /// Once for each: that the output has failed, or that lines are dropped, and why. For another
  /// place than this one.
  std::optional<std::string> trouble();

 private:
  std::size_t waiting() const { return waiting_.size() - taken_; }
  void clear();
  void keep(std::string_view text);
  bool write_some(int patience_ms);
  void resume();

  int descriptor_;
  std::string name_;
  int terminal_;  // opened for descriptor_; -1: none
  std::string waiting_;
  std::size_t taken_ = 0;  // of it, already written
  std::optional<std::string> trouble_;
  long dropped_ = 0;          // lines, since the last that was kept
  bool dropping_ = false;     // until the reader has taken what waits
  bool inside_line_ = false;  // the text kept or dropped last ended within a line
  bool skips_line_ = false;   // the rest of a line whose begin was dropped
  bool lost_ = false;
};

}  // namespace lockstep
