// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/collective_strings.h"

#include <cstdint>

#include "core/exec/gather_records.h"

namespace lockstep {

std::string broadcast_string(Communicator& communicator, std::string text) {
  std::uint64_t bytes = text.size();
  communicator.broadcast(&bytes, sizeof bytes, 0);
  text.resize(bytes);
  communicator.broadcast(text.data(), bytes, 0);
  return text;
}

std::vector<std::string> gather_strings(Communicator& communicator, const std::string& text) {
  const auto ranks = std::size_t(communicator.size());
  const std::vector<std::size_t> sizes = gather_records(communicator, text.size());
  std::size_t total = 0;
  for (std::size_t size : sizes) total += size;
  std::string all(total, '\0');
  communicator.all_gather_v(text.data(), all.data(), sizes);
  std::vector<std::string> result;
  for (std::size_t at = 0, r = 0; r < ranks; at += sizes[r++])
    result.push_back(all.substr(at, sizes[r]));
  return result;
}

}  // namespace lockstep
