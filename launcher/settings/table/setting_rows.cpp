// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/setting_rows.h"

#include "core/base/text/name_patterns.h"

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

}  // namespace lockstep
