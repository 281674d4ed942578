// SPDX-License-Identifier: Apache-2.0
#include "core/base/name_patterns.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

NamePatterns::NamePatterns(const std::string& what, const std::vector<std::string>& patterns)
    : what_(what), texts_(patterns) {
  for (const std::string& pattern : patterns) {
    try {
      expressions_.emplace_back(pattern);
    } catch (const std::regex_error& error) {
      throw ConfigError(
          fmt::format("{}: '{}' is no regular expression: {}", what, pattern, error.what()));
    }
  }
}

bool NamePatterns::match(const std::string& name) const {
  return std::ranges::any_of(expressions_,
                             [&](const std::regex& e) { return std::regex_search(name, e); });
}

void NamePatterns::expect_matches(const std::vector<std::string>& names) const {
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < texts_.size(); ++i)
    if (std::ranges::none_of(
            names, [&](const std::string& n) { return std::regex_search(n, expressions_[i]); }))
      idle.push_back("'" + texts_[i] + "'");
  if (idle.empty()) return;
  throw ConfigError(
      fmt::format("{}: no parameter matches {}", what_, fmt::join(idle, ", ")),
      names.empty() ? ""
                    : fmt::format("the names go from '{}' to '{}'", names.front(), names.back()));
}

}  // namespace lockstep
