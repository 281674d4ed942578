// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

/// Looks at the parts of tokenizer.json, of which many may be missing or null.
namespace lockstep::io {

/// `object[key]`; null where it is not there.
inline const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

/// Whether a member is off: not there, null, false, 0 or empty.
inline bool is_off(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = member(object, key);
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null();
}

/// `part["type"]`, or nothing.
inline std::string type_of(const nlohmann::json& part) {
  const nlohmann::json& type = part.is_object() ? member(part, "type") : nlohmann::json();
  return type.is_string() ? type.get<std::string>() : "";
}

}  // namespace lockstep::io
