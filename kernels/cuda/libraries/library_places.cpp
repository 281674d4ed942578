// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/library_places.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include "core/base/env.h"

namespace lockstep::cuda {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The parts between colons that are not empty.
Texts split(const std::string& list) {
  Texts parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ':');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

/// The folders in `folder`, sorted; none where it cannot be read.
Texts folders_in(const fs::path& folder) {
  Texts found;
  std::error_code none;
  for (fs::directory_iterator entry(folder, none), end; !none && entry != end;
       entry.increment(none))
    if (entry->is_directory(none)) found.push_back(entry->path().string());
  std::ranges::sort(found);
  return found;
}

/// lib/python3.11/site-packages and its like below `prefix`; the version of `python`, the name of
/// an interpreter, comes first.
void add_packages(Texts& found, const fs::path& prefix, const std::string& python = {}) {
  Texts versions = folders_in(prefix / "lib");
  std::erase_if(versions, [](const std::string& folder) {
    return !fs::path(folder).filename().string().starts_with("python3");
  });
  std::ranges::stable_partition(
      versions, [&](const std::string& folder) { return fs::path(folder).filename() == python; });
  std::error_code none;
  for (const std::string& version : versions)
    for (const char* name : {"site-packages", "dist-packages"})
      if (const fs::path folder = fs::path(version) / name; fs::is_directory(folder, none))
        if (std::ranges::find(found, folder.string()) == found.end())
          found.push_back(folder.string());
}

/// The packages of the first python3 on PATH. It is not started: a rank may not fork.
void add_packages_on_path(Texts& found, const LibraryPlaces& places) {
  for (const std::string& folder : split(places.path)) {
    const fs::path program = fs::path(folder) / "python3";
    if (access(program.c_str(), X_OK) != 0) continue;
    std::error_code none;
    const fs::path real = fs::canonical(program, none);
    const std::string name = real.filename().string();
    // An environment's own python3 is a link into the system's.
    add_packages(found, program.parent_path().parent_path(), name);
    if (!places.home.empty()) add_packages(found, fs::path(places.home) / ".local", name);
    const fs::path prefix = real.parent_path().parent_path();
    if (prefix == fs::path(places.root + "/usr"))
      add_packages(found, places.root + "/usr/local", name);
    if (!real.empty()) add_packages(found, prefix, name);
    return;
  }
}

class Candidates {
 public:
  explicit Candidates(std::string file) : file_(std::move(file)) {}

  void add(const fs::path& folder) {
    std::error_code none;
    const std::string path = (folder / file_).lexically_normal().string();
    if (fs::exists(path, none) && std::ranges::find(found_, path) == found_.end())
      found_.push_back(path);
  }
  /// Python packages below `folder`, each with its own lib.
  void add_packages(const fs::path& folder) {
    for (const std::string& package : folders_in(folder)) add(fs::path(package) / "lib");
  }
  void add_linker() { found_.push_back(file_); }
  Texts take() { return std::move(found_); }

 private:
  std::string file_;
  Texts found_;
};

}  // namespace

LibraryPlaces library_places() {
  return {.chosen = split(env().cuda_path.value_or("")),
          .toolkit = split(LOCKSTEP_CUDA_TOOLKIT_FOLDERS),
          .beside = split(LOCKSTEP_CUDA_HEADER_FOLDERS),
          .virtual_env = variable("VIRTUAL_ENV"),
          .conda_prefix = variable("CONDA_PREFIX"),
          .path = variable("PATH"),
          .home = variable("HOME"),
          .root = {}};
}

std::vector<std::string> site_packages(const LibraryPlaces& places) {
  Texts found;
  if (!places.virtual_env.empty()) add_packages(found, places.virtual_env);
  if (!places.conda_prefix.empty()) add_packages(found, places.conda_prefix);
  add_packages_on_path(found, places);
  return found;
}

std::vector<std::string> library_candidates(const std::string& file, const LibraryPlaces& places) {
  if (file.find('/') != std::string::npos) return {file};
  Candidates candidates(file);
  for (const fs::path root : places.chosen) {
    for (const char* part : {"", "lib64", "lib", "extras/CUPTI/lib64"}) candidates.add(root / part);
    candidates.add_packages(root / "targets");
    candidates.add_packages(root / "nvidia");
    candidates.add_packages(root);
  }
  candidates.add_linker();
  for (const std::string& folder : places.toolkit) candidates.add(folder);
  if (!places.conda_prefix.empty()) {
    candidates.add(fs::path(places.conda_prefix) / "lib");
    candidates.add_packages(fs::path(places.conda_prefix) / "targets");
  }
  for (const std::string& folder : site_packages(places))
    candidates.add_packages(fs::path(folder) / "nvidia");
  for (const std::string& folder : places.beside) candidates.add(folder);
  return candidates.take();
}

}  // namespace lockstep::cuda
