// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/name_patterns.h"

#include <algorithm>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"

namespace lockstep {
namespace {

#ifdef __GLIBCXX__
/// Without it a pattern such as (a*)*b takes time that doubles with every letter of a name.
constexpr auto kSyntax = std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
constexpr auto kSyntax = std::regex::ECMAScript;
#endif
/// The library's compiler calls itself for every character.
constexpr std::size_t kLongestPattern = 1000;

std::regex compile(const std::string& what, const std::string& pattern) {
  LOCKSTEP_CHECK(pattern.size() <= kLongestPattern,
                 ConfigError,
                 "{}: a pattern of {} characters, expected at most {}",
                 what,
                 pattern.size(),
                 kLongestPattern);
  try {
    return std::regex(pattern, kSyntax);
  } catch (const std::regex_error& error) {
    throw ConfigError(fmt::format(
        "{}: '{}' is not a valid regular expression: {}", what, as_written(pattern), error.what()));
  }
}

}  // namespace

NamePatterns::NamePatterns(const std::string& what, const std::vector<std::string>& patterns)
    : what_(what), texts_(patterns) {
  for (const std::string& pattern : patterns) expressions_.push_back(compile(what, pattern));
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
      idle.push_back("'" + as_written(texts_[i]) + "'");
  if (idle.empty()) return;
  throw ConfigError(
      fmt::format("{}: no parameter matches {}", what_, fmt::join(idle, ", ")),
      names.empty() ? ""
                    : fmt::format("the names go from '{}' to '{}'", names.front(), names.back()));
}

}  // namespace lockstep
