// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shared_folder.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "core/base/fixed_text.h"
#include "core/base/random.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr double kPatienceSeconds = 10;
constexpr int kMaxLevels = 64;

struct Answer {
  char host[64] = {};
  bool sees = false;
};

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
  Answer own;
  set_text(own.host, host_name());
  own.sees = !folder.empty() && appears(file_of(folder, call.levels, call.token), writes) &&
             (!writes || hash_of_rest(folder, call.levels) == call.rest);
  const std::vector<Answer> answers = gather_records(communicator, own);
  std::error_code ignored;
  if (communicator.rank() == 0) fs::remove(file_of(folder, call.levels, call.token), ignored);
  FolderSight sight{.host = answers[0].host, .blind = {}};
  for (std::size_t r = 0; r < answers.size(); ++r)
    if (!answers[r].sees) sight.blind.push_back(fmt::format("rank {} on {}", r, answers[r].host));
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
                                     fmt::join(sight->blind, ", ")),
                         "`out` must lie on a file system that all nodes share");
}

}  // namespace lockstep
