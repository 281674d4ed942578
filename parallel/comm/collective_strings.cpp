// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/collective_strings.h"

#include <cstdint>
#include <numeric>
#include <unordered_map>

#include "core/base/xxh64.h"
#include "core/exec/agreement.h"
#include "core/exec/gather_records.h"

namespace lockstep {

std::string broadcast_string(Communicator& communicator, std::string text, int root) {
  std::uint64_t bytes = text.size();
  communicator.broadcast(&bytes, sizeof bytes, root);
  text.resize(bytes);
  communicator.broadcast(text.data(), bytes, root);
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

std::vector<RanksWithText> gather_distinct_strings(Communicator& communicator,
                                                   const std::string& text) {
  struct Card {
    std::uint64_t hash = 0, bytes = 0;
  };
  const auto ranks = std::size_t(communicator.size());
  const Card own{xxh64(text.data(), text.size()), text.size()};
  std::vector<RanksWithText> found;
  if (all_ranks_equal(communicator, {own.hash})) {
    found.push_back({text, std::vector<int>(ranks)});
    std::iota(found[0].ranks.begin(), found[0].ranks.end(), 0);
    return found;
  }
  const std::vector<Card> cards = gather_records(communicator, own);
  std::unordered_map<std::uint64_t, std::size_t> index_of;  // by hash, in `found`
  std::vector<std::size_t> sizes(ranks);                    // of what each rank sends
  std::size_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto [at, is_new] = index_of.try_emplace(cards[r].hash, found.size());
    if (is_new) {
      found.emplace_back();
      total += sizes[r] = cards[r].bytes;
    }
    found[at->second].ranks.push_back(int(r));
  }
  std::string all(total, '\0');
  communicator.all_gather_v(text.data(), all.data(), sizes);
  std::size_t at = 0;
  for (RanksWithText& one : found) {
    const std::size_t bytes = sizes[std::size_t(one.ranks.front())];
    one.text = all.substr(at, bytes);
    at += bytes;
  }
  return found;
}

std::vector<std::string> gather_common_strings(Communicator& communicator,
                                               const std::string& text) {
  std::vector<std::string> all(std::size_t(communicator.size()));
  for (const RanksWithText& one : gather_distinct_strings(communicator, text))
    for (const int rank : one.ranks) all[std::size_t(rank)] = one.text;
  return all;
}

FirstText first_text(Communicator& communicator, const std::string& own) {
  const int rank = first_rank(communicator, !own.empty());
  if (rank < 0) return {};
  return {rank, broadcast_string(communicator, own, rank)};
}

}  // namespace lockstep
