// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/settings/flag_values.h"

namespace lockstep {

/// The largest N of a flag: products of several numbers of samples and steps stay far from
/// overflow.
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

/// Adds flags of one group of --help.
class FlagGroup {
 public:
  FlagGroup(CLI::App& app, std::string group) : app_(app), group_(std::move(group)) {}

  CLI::Option* text(const std::string& name, std::string& value, const std::string& help) {
    return finish(app_.add_option(name, value, help), "TEXT");
  }
  CLI::Option* words(const std::string& name,
                     std::string& value,
                     const std::vector<std::string_view>& words,
                     const std::string& help) {
    std::string type;
    for (std::string_view word : words) type += (type.empty() ? "" : "|") + std::string(word);
    return finish(app_.add_option(name, value, help), type)->check(one_of(name, words));
  }
  CLI::Option* whole(const std::string& name,
                     std::int64_t& value,
                     std::int64_t least,
                     const std::string& help,
                     std::int64_t most = kMaxCount) {
    return finish(app_.add_option(name, value, help), "N")->check(whole_number(name, least, most));
  }
  CLI::Option* whole_or_auto(const std::string& name,
                             std::string& value,
                             std::int64_t least,
                             std::int64_t most,
                             const std::string& help) {
    return finish(app_.add_option(name, value, help), "auto|N")
        ->check(whole_number_or(name, "auto", least, most));
  }
  CLI::Option* real(
      const std::string& name, double& value, double least, double most, const std::string& help) {
    return finish(app_.add_option(name, value, help), "X")->check(real_number(name, least, most));
  }
  /// May be given several times.
  CLI::Option* list(const std::string& name,
                    std::vector<std::string>& value,
                    const std::string& type,
                    const std::string& help) {
    CLI::Option* option = app_.add_option(name, value, help);
    return option->group(group_)->type_name(type)->capture_default_str()->allow_extra_args(false);
  }
  CLI::Option* flag(const std::string& name, bool& value, const std::string& help) {
    return app_.add_flag(name, value, help)->group(group_)->take_last();
  }

 private:
  CLI::Option* finish(CLI::Option* option, const std::string& type) {
    return option->group(group_)->type_name(type)->capture_default_str()->take_last();
  }
  CLI::App& app_;
  std::string group_;
};

}  // namespace lockstep
