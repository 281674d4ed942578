// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// What one argument of predict led to.
struct NamedFile {
  std::string path;     ///< "-": standard input
  std::string problem;  ///< not empty: why there is nothing at `path`
};

/// The files that `arguments` name, in their order: files, all files below folders (by their paths'
/// bytes; hidden ones do not count), and patterns with *, ? or [] that no shell has expanded. What
/// leads nowhere is kept with its problem. Nothing is opened.
std::vector<NamedFile> find_files(const std::vector<std::string>& arguments);

/// All of standard input. Throws ConfigError: it is empty; DataError: more than
/// data::kMaxFileBytes, or it cannot be read.
std::string read_stdin();

/// A file's text, or standard input's. Throws DataError.
std::string read_named(const std::string& path);

}  // namespace lockstep
