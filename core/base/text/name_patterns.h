// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace lockstep {

/// Regular expressions (ECMAScript) that are searched in parameter names.
class NamePatterns {
 public:
  NamePatterns() = default;
  /// `what` names where they come from, in messages: "`freeze`", or a flag, "--freeze".
  /// Throws ConfigError: one is not a regular expression, has back references, or more than 1,000
  /// characters.
  NamePatterns(const std::string& what, const std::vector<std::string>& patterns);

  /// Whether any of them is found in `name`.
  bool match(const std::string& name) const;
  /// Throws ConfigError naming the patterns that are found in none of `names`.
  void expect_matches(const std::vector<std::string>& names) const;

 private:
  std::string what_;
  std::vector<std::string> texts_;
  std::vector<std::regex> expressions_;
};

}  // namespace lockstep
