// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/setting.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep {

const Setting* find_setting(std::string_view name) {
  const std::vector<Setting>& table = settings_table();
  const auto found = std::ranges::find(table, name, &Setting::name);
  return found == table.end() ? nullptr : &*found;
}

std::string flag_of_parameter(std::string_view parameter) {
  std::string name(parameter);
  std::ranges::replace(name, '_', '-');
  return find_setting(name) == nullptr ? std::string() : "--" + name;
}

const Applies* broken_condition(const Setting& setting,
                                const TrainFlags& flags,
                                std::string_view text) {
  const auto broken = std::ranges::find_if(
      setting.applies, [&](const Applies& condition) { return !condition.holds(flags, text); });
  return broken == setting.applies.end() ? nullptr : &*broken;
}

void expect_applies(const Setting& setting, const TrainFlags& flags, std::string_view text) {
  const Applies* const broken = broken_condition(setting, flags, text);
  if (broken == nullptr) return;
  const Setting& on = *find_setting(broken->on);
  const std::optional<Texts> value = on.get(flags);
  if (!value)
    throw ConfigError(fmt::format("--{} needs --{}", setting.name, on.name), broken->hint);
  throw ConfigError(fmt::format("--{} cannot be combined with --{}{}",
                                setting.name,
                                on.name,
                                on.arity == Setting::Arity::flag
                                    ? ""
                                    : as_written(fmt::format(" {}", fmt::join(*value, ",")))),
                    broken->hint);
}

}  // namespace lockstep
