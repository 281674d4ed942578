// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/trainer.h"
#include "parallel/comm/self_communicator.h"
#include "tests/support/mpi_world.h"

namespace lockstep::testing {

/// The weights of trainings 0 to `count` - 1 of one rank alone, which ranks share out.
inline std::vector<std::string> weights_alone(
    int count, const std::function<TrainSummary(int, Communicator&)>& train) {
  using Hash = std::array<char, 64>;
  Communicator& world = mpi_world();
  const auto n = std::size_t(count), ranks = std::size_t(world.size());
  std::vector<Hash> own(n), all(n * ranks);
  SelfCommunicator self;
  for (int i = world.rank(); i < count; i += world.size())
    train(i, self).weights_sha256.copy(own[std::size_t(i)].data(), sizeof(Hash));
  world.all_gather(own.data(), all.data(), n * sizeof(Hash));
  std::vector<std::string> result;
  for (std::size_t i = 0; i < n; ++i) {
    const Hash& hash = all[i % ranks * n + i];
    result.emplace_back(hash.begin(), hash.end());
  }
  return result;
}

}  // namespace lockstep::testing
