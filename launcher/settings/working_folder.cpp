// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/working_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace lockstep {

namespace fs = std::filesystem;

std::string working_folder() {
  std::error_code error;
  const fs::path folder = fs::current_path(error);
  return error ? std::string() : folder.string();
}

std::string take_working_folder(std::vector<TomlEntry>& entries) {
  const auto entry = std::ranges::find(entries, kWorkingFolder, &TomlEntry::key);
  if (entry == entries.end()) return {};
  std::string folder = entry->values.empty() ? std::string() : entry->values.back();
  entries.erase(entry);
  return folder;
}

std::string file_found_from(const std::string& folder, const std::string& path) {
  std::error_code error;
  if (folder.empty() || path.empty() || fs::path(path).is_absolute()) return path;
  if (fs::equivalent(folder, working_folder(), error)) return path;
  const fs::path there = fs::path(folder) / path;
  return fs::exists(there, error) ? there.lexically_normal().string() : path;
}

std::string data_found_from(const std::string& folder, const std::string& data) {
  const auto colon = data.find(':');
  if (colon == data.npos || data.starts_with("synthetic:")) return data;
  return data.substr(0, colon + 1) + file_found_from(folder, data.substr(colon + 1));
}

}  // namespace lockstep
