// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shared_folder.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "core/base/random.h"
#include "core/base/rank_list.h"
#include "core/exec/agreement.h"
#include "core/host/machine.h"
#include "lockstep/error.h"
#include "parallel/comm/collective_strings.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr double kPatienceSeconds = 10;
constexpr int kMaxLevels = 64;

/// The folder so many levels above `folder`.
fs::path above(const std::string& folder, int levels) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  for (int i = 0; i < levels; ++i) path = path.parent_path();
  return path;
}

fs::path file_of(const std::string& folder, int levels, std::uint64_t token) {
  return above(folder, levels) / fmt::format(".shared-{:016x}", token);
}

/// Of the part of `folder` that is not there.
std::uint64_t hash_of_rest(const std::string& folder, int levels) {
  return random_key(0, above(folder, 0).lexically_relative(above(folder, levels)).string());
}

bool appears(const fs::path& file, bool writes) {
  const auto start = std::chrono::steady_clock::now();
  const auto mode = writes ? std::ios::in | std::ios::out : std::ios::in;
  while (!std::fstream(file, mode).good()) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > kPatienceSeconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

std::optional<FolderSight> look_for_shared_folder(Communicator& communicator,
                                                  const std::string& folder,
                                                  bool writes) {
  struct Call {
    std::uint64_t token = 0, rest = 0;  // rest: hash_of_rest()
    int levels = 0;                     // above `folder`
    bool written = false;
  } call;
  if (communicator.rank() == 0) {
    call.token = (std::uint64_t(std::random_device{}()) << 32) | std::random_device{}();
    std::error_code ignored;
    while (!fs::is_directory(above(folder, call.levels), ignored) && call.levels < kMaxLevels)
      ++call.levels;
    call.rest = hash_of_rest(folder, call.levels);
    call.written = std::ofstream(file_of(folder, call.levels, call.token)).put('\n').flush().good();
  }
  communicator.broadcast(&call, sizeof call, 0);
  if (!call.written) return std::nullopt;
  const bool sees = !folder.empty() && appears(file_of(folder, call.levels, call.token), writes) &&
                    (!writes || hash_of_rest(folder, call.levels) == call.rest);
  const bool all_see = all_ranks(communicator, sees);
  std::error_code ignored;
  if (communicator.rank() == 0) fs::remove(file_of(folder, call.levels, call.token), ignored);
  FolderSight sight{.host = broadcast_string(communicator, host_name()), .blind = {}};
  if (all_see) return sight;
  constexpr const char* kSees = "";
  const auto hosts = gather_common_strings(communicator, sees ? kSees : "on " + host_name());
  std::vector<int> blind;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (hosts[r] != kSees) blind.push_back(int(r));
  sight.blind_ranks = int(blind.size());
  sight.blind = format_ranks_by_place(blind, [&](int rank) { return hosts[std::size_t(rank)]; });
  return sight;
}

void check_shared_folder(Communicator& communicator, const std::string& folder) {
  if (communicator.size() == 1) return;
  const auto sight = look_for_shared_folder(communicator, folder);
  // Where rank 0 cannot write, other checks say so better.
  if (!sight || sight->blind.empty()) return;
  throw EnvironmentError(fmt::format("the output folder {} of rank 0 on {} is not the one of {}",
                                     folder,
                                     sight->host,
                                     sight->blind),
                         "`out` must lie on a file system that all nodes share");
}

}  // namespace lockstep
