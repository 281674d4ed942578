// SPDX-License-Identifier: Apache-2.0
#include "core/io/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/error.h"

namespace lockstep::io {

using nlohmann::json;

json parse_strict_json(std::string_view text, const std::string& where, int max_depth) {
  std::vector<std::set<std::string>> keys(std::size_t(max_depth) + 2);
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    LOCKSTEP_CHECK(depth <= max_depth, DataError, "{} nests too deeply", where);
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
