// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/fingerprint.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>

#include "core/base/check.h"
#include "core/base/random.h"
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

std::string describe(const std::string& key,
                     const std::map<std::string, std::vector<int>>& ranks_of_value) {
  std::vector<std::string> parts;
  for (const auto& [value, ranks] : ranks_of_value)
    parts.push_back(fmt::format(
        "{} on rank{} {}", value, ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", ")));
  return fmt::format("{} is {}", key, fmt::join(parts, " and "));
}

/// Ranks that do not know a key (another version of the program) differ as well.
void add_missing(std::map<std::string, std::vector<int>>& ranks_of_value, int ranks) {
  std::vector<int> missing;
  for (int rank = 0; rank < ranks; ++rank) {
    bool found = false;
    for (const auto& [value, having] : ranks_of_value)
      found = found || std::ranges::find(having, rank) != having.end();
    if (!found) missing.push_back(rank);
  }
  if (!missing.empty()) ranks_of_value["absent"] = missing;
}

}  // namespace

Fingerprint fingerprint_of_rank_0(Communicator& communicator,
                                  const std::function<Fingerprint()>& compute) {
  return parse(text_of_rank_0(communicator, [&] { return serialise(compute()); }));
}

void compare_fingerprints(Communicator& communicator, const Fingerprint& fingerprint) {
  if (communicator.size() == 1) return;
  std::map<std::string, std::map<std::string, std::vector<int>>> values;
  const auto texts = gather_strings(communicator, serialise(fingerprint));
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    for (const auto& [key, value] : parse(texts[rank])) values[key][value].push_back(int(rank));
  for (auto& [key, ranks_of_value] : values) add_missing(ranks_of_value, int(texts.size()));
  std::vector<std::string> differences;
  for (const auto& [key, ranks_of_value] : values)
    if (ranks_of_value.size() > 1) differences.push_back(describe(key, ranks_of_value));
  if (!differences.empty())
    throw ConfigError(fmt::format("ranks differ: {}", fmt::join(differences, "; ")),
                      "start every rank with the same program, flags and data");
}

std::string short_hash(const std::string& text) {
  return fmt::format("{:016x}", random_key(0, text));
}

}  // namespace lockstep
