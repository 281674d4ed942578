// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_folder_files.h"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <system_error>

#include "core/io/folder.h"
#include "launcher/output/run_lock.h"
#include "lockstep/error.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H-%M-%S", &local);
  return text;
}

[[noreturn]] void cannot_create(const fs::path& folder, const std::error_code& error) {
  throw EnvironmentError(
      fmt::format("cannot create the output folder {}: {}", folder.string(), error.message()),
      kOutputFolderHint);
}

/// The name of a new folder outlasts a power cut as what lies in it does.
void sync_parent(const fs::path& folder) {
  const fs::path parent = folder.parent_path();
  io::sync_folder(parent.empty() ? fs::path(".") : parent);
}

}  // namespace

bool is_lock(const std::string& name) {
  return name == RunLock::kRun || name == RunLock::kSupervisor;
}

bool holds_only_locks(const fs::path& folder) {
  return std::ranges::all_of(io::names_in(folder), is_lock);
}

void create_output_folder(const fs::path& folder, std::vector<fs::path>& created) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  if (fs::exists(folder, error))
    cannot_create(folder, std::make_error_code(std::errc::not_a_directory));
  if (folder.has_parent_path() && folder.parent_path() != folder)
    create_output_folder(folder.parent_path(), created);
  const bool made = fs::create_directory(folder, error);
  std::error_code unknown;
  if (error && !fs::is_directory(folder, unknown)) cannot_create(folder, error);
  if (!made) return;
  created.push_back(folder);
  sync_parent(folder);
}

std::string create_fresh_output_folder(std::vector<fs::path>& created) {
  const std::string base = "runs/" + time_stamp();
  create_output_folder("runs", created);
  std::string name = base;
  for (int i = 2;; ++i) {
    std::error_code error;
    if (fs::create_directory(name, error)) break;
    if (error) cannot_create(name, error);
    name = fmt::format("{}-{}", base, i);
  }
  created.push_back(name);
  sync_parent(name);
  return name;
}

}  // namespace lockstep
