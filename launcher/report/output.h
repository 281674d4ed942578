// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/io/output_file.h"

namespace lockstep::report {

/// In the first kilobyte of every page, which tells one from other files.
inline constexpr std::string_view kPageMark =
    "<meta name=\"generator\" content=\"lockstep report\">";

/// A file that appears whole under its name, or not at all. What is there already is replaced only
/// where that is asked for and it begins like a file of the same kind.
class Output {
 public:
  struct Kind {
    std::string_view flag;  ///< "--out", for messages
    std::string_view mark;  ///< in the first kilobyte of such a file, or at its very beginning
    bool mark_is_first = false;
    std::string_view words;  ///< "report"
  };

  /// Throws ConfigError: the file is there and must not be written over, or is a folder.
  Output(std::filesystem::path path, const Kind& kind, bool force);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// The first call creates a file next to it. Throws EnvironmentError.
  void write(std::string_view text);
  /// Synced, and under its name. Throws as the constructor and write().
  void finish();

 private:
  void check() const;

  std::filesystem::path path_, temporary_;
  Kind kind_;
  bool force_;
  std::optional<io::OutputFile> file_;
};

}  // namespace lockstep::report
