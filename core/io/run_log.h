// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep {

/// A value that is JSON already, as another object is. Empty: the member is skipped.
struct JsonText {
  std::string text;
};

/// One member of a JSON object. Doubles that are not finite become null, since JSON has none.
struct JsonField {
  std::string_view name;
  std::variant<std::int64_t, std::uint64_t, double, bool, std::string, JsonText> value;
};

/// The object on one line (`indent` < 0) or on several, members in the order given. Text that is
/// not UTF-8 is replaced, never refused.
std::string json_object(std::span<const JsonField> fields, int indent = -1);
inline std::string json_object(std::initializer_list<JsonField> fields, int indent = -1) {
  return json_object(std::span(fields.begin(), fields.size()), indent);
}

/// A file of a run, of text or records, whose every write is checked. Errors do not throw, since a
/// full disk must not end a training: the first one is kept, and later writes are dropped.
class RunLog {
 public:
  RunLog() = default;
  enum class Open {
    empty,
    append,
    shared  ///< as append, by several processes of one host, whose lines stay apart
  };
  /// Creates or empties `file`, or continues after what it holds; a symbolic link is an error().
  explicit RunLog(const std::string& file, Open open = Open::empty);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  RunLog(RunLog&& other) noexcept { *this = std::move(other); }
  RunLog& operator=(RunLog&& other) noexcept;

  /// Appends `line` and a newline, in one write. Where another thread's write hangs, the line is
  /// dropped. In a shared file it begins a line, also where a process that was killed has left one
  /// without an end; an empty line may come before it.
  void write_line(std::string_view line);
  /// Appends the bytes as they are; as write_line() otherwise.
  void write(std::string_view bytes);
  /// Flushes to the device and closes; what fails late fails here.
  void close();
  bool is_open() const { return descriptor_ >= 0; }
  /// "DIR/metrics.jsonl: No space left on device"; empty while all went well.
  const std::string& error() const { return error_; }

 private:
  void fail(int code);
  void write_locked(std::string_view rest);
  bool ends_within_line() const;
  std::unique_ptr<std::mutex> writing_ = std::make_unique<std::mutex>();
  std::string file_;
  std::string error_;
  std::string line_;
  bool shared_ = false;
  int descriptor_ = -1;
};

}  // namespace lockstep
