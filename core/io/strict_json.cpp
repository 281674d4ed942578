// SPDX-License-Identifier: Apache-2.0
#include "core/io/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/error.h"

namespace lockstep::io {

using nlohmann::json;

namespace {

constexpr std::uint64_t kSpareBytes = std::uint64_t{48} << 20;

/// At least what the parser keeps for one event, with a key's copy in the set of keys, and what a
/// list occupies while it grows.
std::uint64_t memory_of(json::parse_event_t event, const json& value) {
  constexpr std::uint64_t kContainer = 64 + 48, kKey = 176, kScalar = 48, kString = 64;
  switch (event) {
    case json::parse_event_t::object_start:
    case json::parse_event_t::array_start:
      return kContainer;
    case json::parse_event_t::key:
      return kKey + 2 * value.get_ref<const std::string&>().size();
    case json::parse_event_t::value:
      return kScalar +
             (value.is_string() ? kString + value.get_ref<const std::string&>().size() : 0);
    default:
      return 0;
  }
}

}  // namespace

json parse_strict_json(std::string_view text,
                       const std::string& where,
                       int max_depth,
                       std::uint64_t file_bytes) {
  std::vector<std::set<std::string>> keys(std::size_t(max_depth) + 2);
  const std::uint64_t most = std::max<std::uint64_t>(file_bytes, text.size()) + kSpareBytes;
  std::uint64_t used = 0;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    LOCKSTEP_CHECK(depth <= max_depth, DataError, "{} nests too deeply", where);
    used += memory_of(event, value);
    LOCKSTEP_CHECK(used <= most,
                   DataError,
                   "{} holds too many values for a file of its size: reading them would take more "
                   "than {} bytes",
                   where,
                   most);
    if (event == json::parse_event_t::object_start) keys[std::size_t(depth) + 1].clear();
    if (event == json::parse_event_t::key) {
      const std::string name = value.get<std::string>();
      LOCKSTEP_CHECK(keys[std::size_t(depth)].insert(name).second,
                     DataError,
                     "{}: '{}' appears twice",
                     where,
                     name);
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    throw DataError(fmt::format("{} is not valid JSON: {}", where, error.what()),
                    "the file is damaged or is not of this kind");
  }
}

}  // namespace lockstep::io
