// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/setting.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/name_patterns.h"
#include "launcher/settings/table/setting_rows.h"

namespace lockstep {

Setting& SettingRows::add(std::string name, std::string type, std::string help) {
  table_.emplace_back();
  Setting& row = table_.back();
  row.name = std::move(name);
  row.group = group_;
  row.type = std::move(type);
  row.help = std::move(help);
  return row;
}

Setting& SettingRows::custom(std::string name,
                             std::string type,
                             std::string help,
                             std::function<void(TrainFlags&, const std::string&)> set,
                             std::function<std::optional<std::string>(const TrainFlags&)> get) {
  Setting& row = add(std::move(name), std::move(type), std::move(help));
  row.set = [set = std::move(set)](TrainFlags& flags, const Texts& texts) {
    set(flags, texts.back());
  };
  row.get = [get = std::move(get)](const TrainFlags& flags) -> std::optional<Texts> {
    if (const auto text = get(flags)) return Texts{*text};
    return std::nullopt;
  };
  return row;
}

void SettingRows::expect_patterns(const std::string& flag, const Texts& texts) {
  const NamePatterns compiled(flag, texts);
}

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
  throw ConfigError(
      fmt::format(
          "--{} cannot be combined with --{}{}",
          setting.name,
          on.name,
          on.arity == Setting::Arity::flag ? "" : fmt::format(" {}", fmt::join(*value, ","))),
      broken->hint);
}

}  // namespace lockstep
