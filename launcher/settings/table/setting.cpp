// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/setting.h"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <set>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep {

const Setting* find_setting(std::string_view name) {
  const std::vector<Setting>& table = settings_table();
  const auto found = std::ranges::find(table, name, &Setting::name);
  return found == table.end() ? nullptr : &*found;
}

namespace {

/// Names that a user has written in backticks. Messages are made on every thread.
struct UserNames {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
};
UserNames& user_names() {
  static UserNames names;
  return names;
}

}  // namespace

void keep_user_text(std::string_view text) {
  const std::vector<std::string> names = parameters_in(text);
  if (names.empty()) return;
  const std::scoped_lock lock(user_names().mutex);
  user_names().names.insert(names.begin(), names.end());
}

std::string flag_of_parameter(std::string_view parameter) {
  {
    const std::scoped_lock lock(user_names().mutex);
    if (user_names().names.contains(parameter)) return {};
  }
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
  throw ConfigError(
      fmt::format(
          "--{} cannot be combined with --{}{}",
          setting.name,
          on.name,
          on.arity == Setting::Arity::flag ? "" : fmt::format(" {}", fmt::join(*value, ","))),
      broken->hint);
}

}  // namespace lockstep
