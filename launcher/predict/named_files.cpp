// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/named_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <glob.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/data/images/image_folder.h"
#include "core/data/input_file.h"

namespace lockstep {
namespace {

void add_path(const std::string& path, std::vector<NamedFile>& files) {
  try {
    if (path == "-" || !is_folder(path)) {
      files.push_back({path, {}});
      return;
    }
    const std::vector<std::string> below = data::files_below(path);
    for (const std::string& file : below) files.push_back({file, {}});
    if (below.empty()) files.push_back({path, "a folder without files"});
  } catch (const DataError& problem) {
    files.push_back({path, problem.what()});
  }
}

/// The paths that match, in the order of their bytes.
std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::vector<NamedFile> find_files(const std::vector<std::string>& arguments) {
  std::vector<NamedFile> files;
  for (const std::string& argument : arguments) {
    try {
      if (argument == "-" || is_there(argument)) {
        add_path(argument, files);
        continue;
      }
    } catch (const DataError& problem) {
      files.push_back({argument, problem.what()});
      continue;
    }
    const bool pattern = argument.find_first_of("*?[") != std::string::npos;
    const std::vector<std::string> paths =
        pattern ? matches_of(argument) : std::vector<std::string>();
    for (const std::string& path : paths) add_path(path, files);
    if (paths.empty())
      files.push_back({argument, pattern ? "no file has such a name" : "no such file or folder"});
  }
  return files;
}

std::string read_stdin() {
  std::string text;
  char piece[1 << 16];
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, piece, sizeof piece);
    if (count < 0 && errno == EINTR) continue;
    LOCKSTEP_CHECK(
        count >= 0, DataError, "standard input: cannot be read: {}", std::strerror(errno));
    if (count == 0) break;
    text.append(piece, std::size_t(count));
    LOCKSTEP_CHECK(text.size() <= data::kMaxFileBytes,
                   DataError,
                   "standard input: more than {} bytes",
                   data::kMaxFileBytes);
  }
  if (text.empty())
    throw ConfigError("standard input is empty",
                      "pipe a table or a text in, or name files in place of -");
  return text;
}

std::string read_named(const std::string& path) {
  return path == "-" ? read_stdin()
                     : data::read_text_file(path, "check the file's name and permissions");
}

}  // namespace lockstep
