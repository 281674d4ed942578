// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/shared_folder.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "core/base/fixed_text.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr double kPatienceSeconds = 10;

struct Answer {
  char host[64] = {};
  bool sees = false;
};

bool appears(const std::string& file) {
  const auto start = std::chrono::steady_clock::now();
  while (!std::ifstream(file).good()) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > kPatienceSeconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

void check_shared_folder(Communicator& communicator, const std::string& folder) {
  if (communicator.size() == 1) return;
  std::uint64_t token = 0;
  if (communicator.rank() == 0)
    token = (std::uint64_t(std::random_device{}()) << 32) | std::random_device{}();
  communicator.broadcast(&token, sizeof token, 0);
  const std::string file = fmt::format("{}/.shared-{:016x}", folder, token);
  // Where rank 0 cannot write, other checks say so better.
  bool written = communicator.rank() == 0 && std::ofstream(file).put('\n').flush().good();
  communicator.broadcast(&written, sizeof written, 0);
  if (!written) return;
  Answer own;
  set_text(own.host, host_name());
  own.sees = appears(file);
  const std::vector<Answer> answers = gather_records(communicator, own);
  std::error_code ignored;
  if (communicator.rank() == 0) std::filesystem::remove(file, ignored);
  std::vector<std::string> blind;
  for (std::size_t r = 0; r < answers.size(); ++r)
    if (!answers[r].sees) blind.push_back(fmt::format("rank {} on {}", r, answers[r].host));
  if (!blind.empty())
    throw EnvironmentError(fmt::format("the output folder {} of rank 0 on {} is not the one of {}",
                                       folder,
                                       answers[0].host,
                                       fmt::join(blind, ", ")),
                           "`out` must lie on a file system that all nodes share");
}

}  // namespace lockstep
