// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "launcher/report/document.h"

/// Parts of a report's document, for tests.
namespace lockstep::report {

/// Calls `take` for every object in `json` that is of a kind (a block) or a type (a chart).
inline void for_each_part(const Json& json, const std::function<void(const Json&)>& take) {
  if (json.is_object() && (json.contains("kind") || json.contains("type"))) take(json);
  if (json.is_structured())
    for (const Json& element : json) for_each_part(element, take);
}

inline std::vector<Json> charts_of(const Json& document) {
  std::vector<Json> charts;
  for_each_part(document, [&](const Json& part) {
    if (part.contains("type")) charts.push_back(part);
  });
  return charts;
}

inline Json chart_of(const Json& document, const std::string& id) {
  for (const Json& chart : charts_of(document))
    if (chart["id"] == id) return chart;
  ADD_FAILURE() << "no chart " << id;
  return Json::object();
}

inline Json table_of(const Json& document, const std::string& caption) {
  Json table;
  for_each_part(document, [&](const Json& part) {
    if (part.contains("caption") && part["caption"] == caption) table = part;
  });
  return table;
}

}  // namespace lockstep::report
