// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/fingerprint.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/base/rank_list.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/error_serialization.h"

namespace lockstep {
namespace {

// Control characters that no setting means; a value that holds them all the same loses them.
constexpr char kFieldEnd = '\x1f';
constexpr char kEntryEnd = '\x1e';

std::string serialise(const Fingerprint& fingerprint) {
  std::string text;
  for (const auto& [key, value] : fingerprint) {
    std::string clean = value;
    std::erase_if(clean, [](char c) { return c == kFieldEnd || c == kEntryEnd; });
    text += key + kFieldEnd + clean + kEntryEnd;
  }
  return text;
}

Fingerprint parse(const std::string& text) {
  Fingerprint entries;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t middle = text.find(kFieldEnd, at), end = text.find(kEntryEnd, at);
    LOCKSTEP_ASSERT(middle < end && end != std::string::npos);
    entries.emplace_back(text.substr(at, middle - at), text.substr(middle + 1, end - middle - 1));
    at = end + 1;
  }
  return entries;
}

using RanksOfValue = std::map<std::string, std::vector<int>>;

std::string describe(const std::string& key, const RanksOfValue& ranks_of_value) {
  std::vector<std::string> parts;
  for (const auto& [value, ranks] : ranks_of_value)
    parts.push_back(fmt::format("{} on {}", value, format_ranks(ranks)));
  return fmt::format("{} is {}", key, fmt::join(parts, " and "));
}

/// Ranks that do not know a key (another version of the program) differ as well.
void add_missing(RanksOfValue& ranks_of_value, std::size_t ranks) {
  std::vector<bool> has(ranks);
  for (const auto& [value, having] : ranks_of_value)
    for (const int rank : having) has[std::size_t(rank)] = true;
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (!has[rank]) missing.push_back(int(rank));
  if (!missing.empty()) ranks_of_value["absent"] = missing;
}

}  // namespace

Fingerprint fingerprint_of_rank_0(Communicator& communicator,
                                  const std::function<Fingerprint()>& compute) {
  return parse(text_of_rank_0(communicator, [&] { return serialise(compute()); }));
}

void compare_fingerprints(Communicator& communicator, const Fingerprint& fingerprint) {
  if (communicator.size() == 1) return;
  const auto variants = gather_distinct_strings(communicator, serialise(fingerprint));
  if (variants.size() == 1) return;
  std::map<std::string, RanksOfValue> values;
  for (const auto& [text, ranks] : variants)
    for (const auto& [key, value] : parse(text)) {
      std::vector<int>& all = values[key][value];
      all.insert(all.end(), ranks.begin(), ranks.end());
    }
  std::vector<std::string> differences;
  for (auto& [key, ranks_of_value] : values) {
    for (auto& [value, ranks] : ranks_of_value) std::ranges::sort(ranks);
    add_missing(ranks_of_value, std::size_t(communicator.size()));
    if (ranks_of_value.size() > 1) differences.push_back(describe(key, ranks_of_value));
  }
  if (!differences.empty())
    throw ConfigError(fmt::format("ranks differ: {}", fmt::join(differences, "; ")),
                      "start every rank with the same program, flags and data");
}

std::string short_hash(const std::string& text) {
  return fmt::format("{:016x}", random_key(0, text));
}

}  // namespace lockstep
