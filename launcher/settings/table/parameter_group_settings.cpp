// SPDX-License-Identifier: Apache-2.0
#include "core/base/parameter_names.h"
#include "launcher/settings/table/settings_table.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  throw ConfigError(fmt::format("--group: '{}' {}", as_written(text), what),
                    "--group takes a regular expression, a colon and one setting or two, as in "
                    "--group '^fc: lr=0.1, weight-decay=0'");
}

/// One setting, "lr=0.1", of the group that `text` describes.
void set_one(ParameterGroup& group, const std::string& text, std::string_view setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string_view::npos) refuse(text, "has no value for a setting");
  const std::string_view name = trimmed(setting.substr(0, equals));
  const std::string value(trimmed(setting.substr(equals + 1)));
  if (name != "lr" && name != "weight-decay")
    refuse(text, fmt::format("sets '{}', expected lr or weight-decay", as_written(name)));
  real_number(fmt::format("--group '{}', {}", as_written(text), name), 0, kMaxReal)(value);
  std::optional<float>& member = name == "lr" ? group.lr : group.weight_decay;
  if (member) refuse(text, fmt::format("sets {} twice", name));
  member = float(to_real_number(value));
}

ParameterGroup to_group(const std::string& text) {
  // A regular expression may have colons; settings have none.
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) refuse(text, "has no colon");
  ParameterGroup group{.pattern = std::string(trimmed(std::string_view(text).substr(0, colon)))};
  if (group.pattern.empty()) refuse(text, "has no regular expression");
  for (std::string_view rest = std::string_view(text).substr(colon + 1);;) {
    const std::size_t comma = rest.find(',');
    set_one(group, text, rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return group;
}

}  // namespace

void add_parameter_group_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Optimizer");
  Setting& groups = rows.add("group",
                             "'REGEX: lr=X, weight-decay=X'",
                             "parameters with a learning rate or weight decay of their own, either "
                             "or both; may be repeated, the first match wins");
  groups.arity = Setting::Arity::list;
  groups.set = [](TrainFlags& flags, const Texts& texts) {
    flags.options.groups.clear();
    for (const std::string& text : texts) flags.options.groups.push_back(to_group(text));
  };
  groups.get = [](const TrainFlags& flags) -> std::optional<Texts> {
    Texts texts;
    for (const ParameterGroup& group : flags.options.groups) texts.push_back(to_string(group));
    if (texts.empty()) return std::nullopt;
    return texts;
  };
  rows.real("layer-decay",
            LOCKSTEP_AT(options.layer_decay),
            1e-6,
            1,
            "each layer's learning rate is this factor of that of the layer after it");
}

}  // namespace lockstep
