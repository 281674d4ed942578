// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_folder_files.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <fmt/format.h>
#include <fstream>
#include <string_view>
#include <system_error>

#include "core/io/folder.h"
#include "launcher/output/run_lock.h"
#include "launcher/output/snapshot_folder.h"
#include "lockstep/error.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

/// How every line of a host's log begins.
constexpr const char* kHostLine = "{\"rank\":";

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

std::string host_log_name(const std::string& host) {
  constexpr std::size_t kMaxName = 200;
  std::string name = host.substr(0, kMaxName);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  const bool is_plain = !name.empty() && name[0] != '.' && !name.starts_with("rank_");
  return is_plain ? name : "host-" + name;
}

std::string host_log_suffix(std::span<const RankMachine> ranks, int rank) {
  const RankMachine own = ranks[std::size_t(rank)];
  const auto is_own_machine = [&](const RankMachine& one) { return one.machine == own.machine; };
  const bool is_shared = std::ranges::any_of(
      ranks, [&](const RankMachine& one) { return one.host == own.host && !is_own_machine(one); });
  if (!is_shared) return {};
  return fmt::format("-{}", std::ranges::find_if(ranks, is_own_machine) - ranks.begin());
}

void remove_logs(const fs::path& folder) {
  const auto is_of_rank = [](const std::string& name) {
    int rank = -1, length = 0;
    return std::sscanf(name.c_str(), "rank_%d.log%n", &rank, &length) == 1 &&
           std::size_t(length) == name.size();
  };
  const auto is_of_host = [&](const std::string& name) {
    std::error_code unknown;
    if (!name.ends_with(".log") || !fs::is_regular_file(folder / name, unknown)) return false;
    std::string begin(std::string_view(kHostLine).size(), ' ');
    std::ifstream(folder / name).read(begin.data(), std::streamsize(begin.size()));
    return begin == kHostLine;
  };
  for (const std::string& name : io::names_in(folder)) {
    std::error_code ignored;
    if (is_of_rank(name) || is_of_host(name)) fs::remove(folder / name, ignored);
  }
}

bool is_lock(const std::string& name) {
  return name == RunLock::kRun || name == RunLock::kSupervisor || name == SnapshotFolder::kLink ||
         name == std::string(SnapshotFolder::kLink) + ".tmp";
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

std::string next_output_folder(const fs::path& out) {
  const fs::path folder = fs::absolute(out) / "logs/output";
  std::error_code ignored;
  for (int number = 1;; ++number) {
    const fs::path path = folder / std::to_string(number);
    if (!fs::exists(path, ignored)) return path.string();
  }
}

}  // namespace lockstep
