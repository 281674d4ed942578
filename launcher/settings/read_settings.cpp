// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/read_settings.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/parameter_names.h"
#include "launcher/settings/default_recipe.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/open_data.h"
#include "launcher/settings/resolve_settings.h"

namespace lockstep {
namespace {

void start_from_recipe(const DefaultRecipe& recipe, TrainFlags& flags) {
  flags.options.optimizer = recipe.optimizer;
  flags.options.clip_norm = recipe.clip_norm;
  for (const auto& [name, text] : {std::pair("lr-schedule", recipe.lr_schedule),
                                   std::pair("warmup-steps", recipe.warmup_steps)})
    find_setting(name)->set(flags, {std::string(text)});
}

/// Whether `text`, of a file, has to give way to what was typed although it applies.
bool yields(const Setting& setting,
            const std::string& text,
            const GivenSettings& given,
            const std::string& data_of_file) {
  // One that is typed as 0 is off, and leaves room for the others.
  if (std::ranges::any_of(setting.yields_to, [&](const std::string& other) {
        return given.typed(other) && given.text(other) != "0";
      }))
    return true;
  // Data of the same kind may be the same at another place.
  if (setting.name == "val-fraction")
    return given.typed("data") && source_kind(given.text("data")) != source_kind(data_of_file);
  return setting.name == "micro-batch" && given.typed("global-batch") &&
         to_whole_number(text) > to_whole_number(given.text("global-batch"));
}

/// An error about a value of a file says where it stands there.
void set_value(const Setting& setting, const GivenSettings::Value& value, TrainFlags& flags) {
  try {
    expect_applies(setting, flags, value.texts.back());
    setting.set(flags, value.texts);
  } catch (const ConfigError& error) {
    if (value.place.empty()) throw;
    throw ConfigError(as_written(fmt::format("{}: {}", value.place, error.what())),
                      as_written(error.hint()));
  }
}

}  // namespace

TrainFlags read_settings(const GivenSettings& all, const std::string& data_of_file) {
  GivenSettings given = all;
  TrainFlags flags = default_flags();
  flags.placeholder = given.placeholder;
  flags.ranks_from_run = given.ranks_from_run;
  if (given.has("data") && !given.has("model"))
    given.set("model",
              {std::string(default_model(source_kind(given.text("data"))))},
              SettingSource::derived);
  for (const Setting& setting : settings_table()) {
    const GivenSettings::Value* const value = given.find(setting.name);
    if (value != nullptr) {
      const std::string text = value->texts.back();
      const Applies* const broken = broken_condition(setting, flags, text);
      const bool overruled = value->source == SettingSource::file
                                 ? yields(setting, text, given, data_of_file) ||
                                       (broken != nullptr && given.typed(broken->on))
                                 : value->source == SettingSource::derived && broken != nullptr;
      if (overruled) {
        given.drop(setting.name);
      } else {
        set_value(setting, *value, flags);
        if (value->source == SettingSource::file)
          flags.from_files[setting.name] = fmt::format(
              "--{} {} is from {}", setting.name, fmt::join(value->texts, ","), value->place);
      }
    }
    if (setting.name == "model")
      start_from_recipe(default_recipe(given.recipe.empty() ? flags.model.name : given.recipe),
                        flags);
  }
  if (const auto* const data = given.find("data"))
    flags.data_from_file = data->source == SettingSource::file;
  resolve_settings(given, flags);
  return flags;
}

void add_origins(Error& error, const TrainFlags& flags) {
  for (const std::string& parameter : error.parameters()) {
    std::string name = flag_of_parameter(parameter);
    if (name.empty()) continue;
    const auto origin = flags.from_files.find(name.substr(2));
    if (origin != flags.from_files.end()) error.add_hint(origin->second);
  }
}

}  // namespace lockstep
